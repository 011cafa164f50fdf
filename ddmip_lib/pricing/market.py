"""Old name of `ddmip_lib.pricing.state`, which ends with version 0.4."""

from ..renamed import renamed_module

__getattr__ = renamed_module(__name__, "ddmip_lib.pricing.state")
