"""The shell of the console: routes, templates, and checks of what a browser sends."""
