"""Page models: what each page shows, made from what is known, without a browser. Each is also the page's JSON form."""
