"""The web console: a process of its own that asks a cluster and shows it in a browser. `chronik console` starts it.

`pages/` and `search/` make models from what is known, without a browser and without waiting; `web/` is the shell around
them: routes, templates, checks of what a browser sends. `watching` is the one poller that all open pages share.
"""
