"""Old place of the benchmark data, which are now `ddmip_book.data`."""

from ..renamed import renamed_module

__getattr__ = renamed_module("ddmip_lib.data", "ddmip_book.data")
