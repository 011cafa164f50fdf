"""The suite: models of different shape on which every method is tried, rivals, and what
came of it.
"""
