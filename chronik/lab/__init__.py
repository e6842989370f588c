"""A gallery of faults: real nodes with one fault built in, to see what each looks like and that it is named rightly."""
