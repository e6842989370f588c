"""What a cluster looks like and where a record is: models without a screen, shown by the command line and the console.

Whatever could not be asked is 'not known' in these models; no answer is never read as 'nothing there'.
"""
