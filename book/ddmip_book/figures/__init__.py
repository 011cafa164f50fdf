"""The figures that the chapters draw, one file a chapter, on one small kit."""
