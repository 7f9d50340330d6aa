"""What Gymnasium is told about the environments of riesz, whichever of the two comes first.

Gymnasium has had no entry points for plug-ins since 1.0, and takes too long to be imported for the
sake of those who do not use it. So it is told at once where it is there, and else when it comes.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

# Steps after which an episode is truncated.
STEPS = 200


def register() -> None:
    """Tell Gymnasium; the environments are imported when one is made."""
    import gymnasium

    if not hasattr(gymnasium, "make_vec"):  # older than what they are written for
        return
    for name in ("Navigation", "CartPoleSwingUp", "Puma560"):
        gymnasium.register(
            f"riesz/{name}-v0",
            entry_point=f"riesz.environments:{name}",
            vector_entry_point=f"riesz.environments:{name}Vector",
            max_episode_steps=STEPS,
        )


class _Later:
    """Finds gymnasium where the others do, once, and tells it when it has been executed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        with suppress(ValueError):  # another thread was first
            sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_tell(module: ModuleType) -> None:
                execute(module)
                register()

            spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec


def register_now_or_later() -> None:
    """Tell Gymnasium as soon as it is there."""
    if "gymnasium" not in sys.modules:
        sys.meta_path.insert(0, _Later())
    elif sys.modules["gymnasium"] is not None:
        register()
