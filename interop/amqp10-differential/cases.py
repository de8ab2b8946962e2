"""All exchanges; each module adds its own."""

import connections  # noqa: F401
import links  # noqa: F401
import management  # noqa: F401
import messages  # noqa: F401
from script import CASES

__all__ = ["CASES"]
