"""Small exact versions of the book's ideas, and the figures of its chapters.

Nothing here is needed to solve a problem of your own: these modules are what chapters import to
show, by computation, what they prove.
"""
