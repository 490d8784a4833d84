"""The fully connected layer of the nets: torch's, with faster products on some processors."""

from __future__ import annotations

from torch import Tensor, nn

from unbraid.model.matrix_products import linear_output


class Dense(nn.Linear):
    """`nn.Linear`, with its parameters and its numbers up to rounding; see `matrix_products.linear_output`.

    >>> import torch
    >>> layer, x = Dense(512, 256), torch.randn(64, 512)
    >>> torch.allclose(layer(x), nn.Linear.forward(layer, x), atol=1e-5)
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        """See `torch.nn.Linear.forward`."""
        return linear_output(input, self.weight, self.bias)
