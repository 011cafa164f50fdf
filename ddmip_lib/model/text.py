"""Numbers and counted nouns in messages and summaries."""


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural unless the number is 1.

    Parameters
    ----------
    number : int
        How many there are.
    noun : str
        The noun in the singular.

    Returns
    -------
    str
        Such as "2 blocks".

    Examples
    --------
    >>> counted(1, "mode"), counted(0, "block")
    ('1 mode', '0 blocks')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}s"


def shown(value: float | None) -> str:
    """Return a number to six digits, or "none".

    >>> shown(0.1234567), shown(None)
    ('0.123457', 'none')
    """
    return "none" if value is None else f"{value:.6g}"
