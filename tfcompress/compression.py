"""Presets: the compressors of the papers, by name."""

from tfcompress.compressor import Compressor


class Compression:
    """Named compressors, to be passed as `compression=`.

    `none` and `fp16` are attributes, as Horovod's are; every other preset is a function whose arguments
    default to the paper's setting and which accepts the policy of `Compressor` (`min_elements`, `seed`).

    Attributes:
      none: Horovod's own all-reduce of the gradients as they are.
      fp16: Horovod's own all-reduce in half precision: 2 times fewer bytes.
    """

    none = Compressor("dense|raw|raw")
    fp16 = Compressor("dense|raw|fp16")

    @staticmethod
    def topk(
        ratio: float = 0.01,
        *,
        index: str = "delta_binary",
        value: str = "raw",
        memory: str = "residual",
        **policy: int,
    ) -> Compressor:
        """Sends the largest `ratio` of the elements of each tensor, with error feedback.

        Args:
          ratio: Share of the elements that is sent, in (0, 1].
          index: Index codec.
          value: Value codec.
          memory: "residual" keeps what is not sent for the next step; "none" drops it.
          **policy: `min_elements`, `seed`.
        """
        return Compressor(f"{memory}|topk:ratio={float(ratio)!r}|{index}|{value}", **policy)

    @staticmethod
    def threshold(
        tau: float = 0.01,
        *,
        index: str = "delta_binary",
        value: str = "raw",
        memory: str = "residual",
        **policy: int,
    ) -> Compressor:
        """Sends the elements whose magnitude is at least `tau`, with error feedback.

        Args:
          tau: Smallest magnitude that is sent, in the gradient's units; above 0.
          index: Index codec.
          value: Value codec.
          memory: "residual" keeps what is not sent for the next step; "none" drops it.
          **policy: `min_elements`, `seed`.
        """
        return Compressor(f"{memory}|threshold:tau={float(tau)!r}|{index}|{value}", **policy)

    @staticmethod
    def sketchml(
        buckets: int = 256,
        groups: int = 8,
        rows: int = 2,
        columns: float = 0.2,
        *,
        sparsifier: str = "nonzero",
        memory: str = "none",
        **policy: int,
    ) -> Compressor:
        """SketchML: quantile buckets in grouped MinMaxSketches, delta-binary keys (sections 3.2 to 3.4).

        Decoded gradients never change sign and never grow, but shrink where keys collide: the paper
        trains with Adam (section 3.3). `memory="residual"` gives back what is lost.

        Args:
          buckets: Quantile buckets of each sign (256 in the paper).
          groups: MinMaxSketches of each sign (8 in the paper).
          rows: Hash rows of a sketch (2 in the paper).
          columns: Columns of a row, as a share of the keys in it (a fifth in the paper).
          sparsifier: What chooses the keys; the paper's gradients are sparse by themselves.
          memory: "none" as in the paper, or "residual".
          **policy: `min_elements`, `seed`.
        """
        joint = (
            f"sketchml:buckets={int(buckets)},groups={int(groups)},rows={int(rows)},"
            f"columns={float(columns)!r}"
        )
        return Compressor(f"{memory}|{sparsifier}|{joint}", **policy)

    @staticmethod
    def deepreduce(
        ratio: float = 0.01,
        *,
        index: str = "bloom",
        value: str = "raw",
        policy: str = "p2",
        fpr: float = 0.001,
        memory: str = "residual",
        **compressor_policy: int,
    ) -> Compressor:
        """DeepReduce on top of Top-r: a Bloom filter for the indices, any codec for the values.

        The default is the paper's DR[BF-P2] of section 6.3 (Top-r 1 %, false-positive rate 0.001);
        `value="dexp"` adds Fit-DExp with the permutation of section 5.1.

        Args:
          ratio: Share of the elements that the sparsifier chooses, in (0, 1].
          index: Index codec; `policy` and `fpr` belong to "bloom".
          value: Value codec: "raw", "fp16", "bf16", "quantile", "dexp".
          policy: "p0" sends a value for every false positive; "p1" and "p2" choose r of the positives;
            "leftmost", "middle", "rightmost" are those of section 10.4; "naive" is the strawman.
          fpr: False-positive rate of the filter, in (0, 1).
          memory: "residual" as in the paper, or "none".
          **compressor_policy: `min_elements`, `seed`.
        """
        if index == "bloom":
            index = f"bloom:policy={policy},fpr={float(fpr)!r}"
        spec = f"{memory}|topk:ratio={float(ratio)!r}|{index}|{value}"
        return Compressor(spec, **compressor_policy)
