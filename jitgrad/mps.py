"""``torch.mps`` on a machine without such a device: nothing is available, and asking is no error."""

from __future__ import annotations

from jitgrad.absent_devices import no_devices

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all", "synchronize"]

_made = no_devices(__name__, "Torch not compiled with MPS enabled")
is_available, device_count, empty_cache = _made["is_available"], _made["device_count"], _made["empty_cache"]
manual_seed, manual_seed_all, synchronize = _made["manual_seed"], _made["manual_seed_all"], _made["synchronize"]
