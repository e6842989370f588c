"""Looking through a topic's messages. A search ends with its coverage: 'not found' is a fact, or it says what was not
read. `query` and `coverage` are pure; `reader` reads; `runs` keeps the searches of all pages."""
