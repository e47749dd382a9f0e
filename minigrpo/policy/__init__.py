"""The room of the weights. Imports bitsandbytes first, before peft does, so that it stays off the network.

At import bitsandbytes fetches executable kernels from a hub where the `kernels` package is installed, and warns where
it is not. It is given a `kernels` that holds none, and its warning is dropped.
"""

import logging
import sys
import types

if "bitsandbytes" not in sys.modules:
    _kernels, _log = sys.modules.get("kernels"), logging.getLogger("bitsandbytes")
    _level = _log.level
    sys.modules["kernels"] = types.ModuleType("kernels")
    _log.setLevel(logging.CRITICAL)
    try:
        import bitsandbytes  # noqa: F401
    except ImportError:  # no build for this machine: only quant=nf4 needs it, and says so
        pass
    finally:
        _log.setLevel(_level)
        del sys.modules["kernels"]
        if _kernels is not None:
            sys.modules["kernels"] = _kernels
