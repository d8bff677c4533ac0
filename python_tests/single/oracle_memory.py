"""What memories carry from step to step, in NumPy with the arithmetic of float32."""

import numpy as np


class Momentum:
    """Momentum correction and factor masking (DGC 3.1 and 3.2; Sketched-SGD, Algorithm 3)."""

    def __init__(self, n: int, rate: float, nesterov: bool):
        self.rate, self.nesterov = np.float32(rate), nesterov
        self.residual, self.velocity = np.zeros(n, np.float32), np.zeros(n, np.float32)

    def compensate(self, gradient: np.ndarray) -> np.ndarray:
        if self.nesterov:
            self.velocity = self.rate * (self.velocity + gradient)
            self.residual = self.residual + self.velocity + gradient
        else:
            self.velocity = self.rate * self.velocity + gradient
            self.residual = self.residual + self.velocity
        return self.residual

    def update(self, indices: np.ndarray, decoded: np.ndarray) -> None:
        self.residual[indices] -= decoded
        if indices.size < self.residual.size:
            self.velocity[indices] = 0
