"""Figures that notebooks show."""

import io

from matplotlib.figure import Figure as Plain


class Figure(Plain):
    """A figure that shows itself, whether or not ``pyplot`` has been set up to."""

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.savefig(picture, format="png")
        return picture.getvalue()
