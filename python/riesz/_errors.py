"""What can go wrong."""


class RieszError(Exception):
    """Any error of riesz that is not the operating system's."""


class InvalidInput(RieszError, ValueError):
    """Data, a setting or a file that cannot be used as it is."""


class FitError(RieszError, RuntimeError):
    """A fit that diverged or did not converge."""
