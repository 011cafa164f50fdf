"""The book's furniture: its figures, examples, experiments, self-checks. The library never imports
it.
"""
