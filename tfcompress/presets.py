"""Presets: the compressors of the papers, by name."""

import ast
from collections.abc import Sequence

from tfcompress.catalogue import is_spec
from tfcompress.policy import Compressor


class Compression:
    """Named compressors, to be passed as `compression=`.

    `none`, `fp16` and `bf16` are attributes, as Horovod's are; every other preset is a function whose
    arguments default to the paper's setting and which accepts the policy of `Compressor` (`min_elements`,
    `seed`).

    Attributes:
      none: Horovod's own all-reduce of the gradients as they are.
      fp16: Horovod's own all-reduce in half precision: 2 times fewer bytes.
      bf16: The same bytes in bfloat16, which has float32's range; sums are made in float32.
    """

    none = Compressor("dense|raw|raw")
    fp16 = Compressor("dense|raw|fp16")
    bf16 = Compressor("dense|raw|bf16")

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

    @staticmethod
    def randomk(
        ratio: float = 0.01, *, value: str = "raw", memory: str = "residual", **policy: int
    ) -> Compressor:
        """Sends a random `ratio` of the elements, which the frame's seed implies: no index is sent.

        Args:
          ratio: Share of the elements that is sent, in (0, 1].
          value: Value codec.
          memory: "residual" keeps what is not sent for the next step; "none" drops it.
          **policy: `min_elements`, `seed`.
        """
        return Compressor(f"{memory}|randomk:ratio={float(ratio)!r}|raw|{value}", **policy)

    @staticmethod
    def shared_randomk(ratio: float = 0.01, *, memory: str = "residual", **policy: int) -> Compressor:
        """Sends the same random `ratio` of the elements on all ranks, by all-reduce, without indices.

        Traffic does not grow with the number of ranks. Which elements is drawn anew at every step.

        Args:
          ratio: Share of the elements that is sent, in (0, 1].
          memory: "residual" keeps what is not sent for the next step; "none" drops it.
          **policy: `min_elements`, `seed`, `payload_dtype`.
        """
        return Compressor(f"{memory}|shared_randomk:ratio={float(ratio)!r}", **policy)

    @staticmethod
    def dgc(
        ratio: float = 0.001,
        momentum: float = 0.9,
        *,
        nesterov: bool = False,
        clip_norm: float | None = None,
        index: str = "delta_binary",
        value: str = "raw",
        **policy: object,
    ) -> Compressor:
        """Deep Gradient Compression: Top-k of velocities that were kept back, with momentum factor masking.

        The momentum is in here (momentum correction): the optimizer must have none of its own. The paper
        raises the sparsity over the first four epochs: `tfc.Schedule.warmup(compressor, steps_per_epoch)`.

        Args:
          ratio: Share of the elements that is sent, in (0, 1] (0.1 % in the paper).
          momentum: Decay of the velocity at each step, in [0, 1).
          nesterov: Nesterov's form of it.
          clip_norm: Local gradient clipping: see `Compressor`.
          index: Index codec.
          value: Value codec.
          **policy: `min_elements`, `seed`, `exclude`.
        """
        memory = _momentum(momentum, nesterov)
        spec = f"{memory}|topk:ratio={float(ratio)!r}|{index}|{value}"
        return Compressor(spec, clip_norm=clip_norm, **policy)

    @staticmethod
    def sketched_sgd(
        k: int = 100_000,
        rows: int = 5,
        columns: int = 1_000_000,
        p: int = 36,
        momentum: float = 0.9,
        *,
        recovery: str = "top",
        nesterov: bool = False,
        exclude: Sequence[str] = ("bias",),
        **policy: object,
    ) -> Compressor:
        """Sketched-SGD, Algorithm 3: an all-reduced Count Sketch, exact values in a second round.

        All gradients together are one vector and one sketch (under Horovod's own wrappers, each by
        itself). The defaults are the paper's for 20 times less traffic on its transformer (section 5.2);
        40 times: rows=15, columns=180_000, p=16. CIFAR-10: k=50_000, columns=500_000. Where the sketch has
        no fewer elements than the gradients, these travel as they are. The optimizer must have no
        momentum of its own.

        Args:
          k: Elements that a step applies.
          rows: Rows of the sketch, an odd number.
          columns: Columns of the sketch.
          p: Elements whose exact values are summed in the second round, for each one that is applied.
          momentum: Decay of the velocity at each step, in [0, 1).
          recovery: "top": the p k largest estimates (Algorithm 3); "heavymix": Algorithm 1.
          nesterov: Nesterov's form of the momentum.
          exclude: What travels uncompressed: biases, as in the paper; see `Compressor`.
          **policy: `min_elements`, `seed`, `clip_norm`, `payload_dtype`.
        """
        codec = (
            f"count_sketch:rows={int(rows)},columns={int(columns)},k={int(k)},candidates={int(p)},"
            f"recovery={recovery}"
        )
        return Compressor(f"{_momentum(momentum, nesterov)}|{codec}", exclude=exclude, **policy)

    @staticmethod
    def qsgd(bits: int = 7, bucket: int = 512, **policy: int) -> Compressor:
        """QSGD: every element on a stochastic grid, scaled by the l2 norm of its bucket; unbiased.

        DeepReduce (section 6.3) uses 7 bits and buckets of 512.

        Args:
          bits: Bits of an element, sign included; 2 to 8.
          bucket: Elements that share a norm.
          **policy: `min_elements`, `seed`.
        """
        return Compressor(f"dense|raw|qsgd:bits={int(bits)},bucket={int(bucket)}", **policy)

    @staticmethod
    def terngrad(clip: float = 2.5, **policy: int) -> Compressor:
        """TernGrad: every element as -1, 0 or 1 times the layer's scale, stochastically.

        Args:
          clip: Magnitudes are clipped at this many standard deviations (2.5 in the paper); 0 does not
            clip, and then the code is unbiased.
          **policy: `min_elements`, `seed`.
        """
        return Compressor(f"dense|raw|ternary:clip={float(clip)!r}", **policy)

    @staticmethod
    def zipml(bits: int = 16, **policy: int) -> Compressor:
        """ZipML's uniform fixed-point grid over the range of each tensor.

        SKCompress (section 7.1) had to give it two bytes for convergence; 8 bits are the other choice.

        Args:
          bits: Bits of an element: 8 or 16.
          **policy: `min_elements`, `seed`.
        """
        return Compressor(f"dense|raw|uniform:bits={int(bits)}", **policy)

    @staticmethod
    def onebit(**policy: int) -> Compressor:
        """1-bit SGD: the sign of every element and the mean magnitude of each sign, with error feedback.

        Args:
          **policy: `min_elements`, `seed`.
        """
        return Compressor("residual|dense|raw|sign", **policy)

    @staticmethod
    def logquant(bits: int = 8, **policy: int) -> Compressor:
        """Base-2 logarithmic quantisation of every element, which FastSGD compares itself with.

        Args:
          bits: Bits of an element, sign included; 2 to 8.
          **policy: `min_elements`, `seed`.
        """
        return Compressor(f"dense|raw|logquant:bits={int(bits)}", **policy)

    @staticmethod
    def threelc(multiplier: float = 1.0, **policy: int) -> Compressor:
        """3LC: three values, five to a byte, runs of zeros shortened; with error feedback.

        DeepReduce (section 6.3) compares with a sparsity multiplier of 1.

        Args:
          multiplier: Sparsity multiplier, in [1, 2): the larger, the more zeros.
          **policy: `min_elements`, `seed`.
        """
        return Compressor(f"residual|dense|threelc:multiplier={float(multiplier)!r}", **policy)

    @staticmethod
    def skcompress(
        buckets: int = 256,
        groups: int = 8,
        rows: int = 2,
        columns: float = 0.2,
        *,
        sparsifier: str = "nonzero",
        memory: str = "none",
        **policy: int,
    ) -> Compressor:
        """SKCompress: SketchML with Huffman-coded sketch cells (4.3) and adaptive delta keys (5.2).

        The defaults are those of section 7.1. On its sparse linear models the paper reports messages
        several times smaller than SketchML's competitors; like SketchML it trains with Adam.

        Args:
          buckets: Quantile buckets of each sign.
          groups: MinMaxSketches of each sign.
          rows: Hash rows of a sketch.
          columns: Columns of a row, as a share of the keys in it.
          sparsifier: What chooses the keys; the paper's gradients are sparse by themselves.
          memory: "none" as in the paper, or "residual".
          **policy: `min_elements`, `seed`.
        """
        joint = (
            f"skcompress:buckets={int(buckets)},groups={int(groups)},rows={int(rows)},"
            f"columns={float(columns)!r}"
        )
        return Compressor(f"{memory}|{sparsifier}|{joint}", **policy)

    @staticmethod
    def fastsgd(base: float = 1.1, tau: int = 0, flag_bits: int = 2, **policy: int) -> Compressor:
        """FastSGD: logarithms of reciprocals, filtered by a threshold, and delta keys with length flags.

        Base and flags are the paper's (section 3). Elements whose code is above the threshold `tau` are
        not sent: those smaller than the sum of the magnitudes of the gradient by a factor of
        base ** tau. The paper's 128 keeps at most 2e5 elements of each gradient, and of a dense gradient
        of a million elements next to none; so by default the threshold is 128, or the code of the mean
        magnitude where that is larger. There is no error feedback.

        Args:
          base: Base of the logarithm, above 1.
          tau: Largest code that is sent; 0 for the larger of 128 and the code of the mean magnitude.
          flag_bits: Bits of a key's length flag.
          **policy: `min_elements`, `seed`.
        """
        value = f"log:base={float(base)!r},tau={int(tau)}"
        return Compressor(f"nonzero|delta_flag:flag_bits={int(flag_bits)}|{value}", **policy)


def _momentum(rate: float, nesterov: bool) -> str:
    return f"momentum:rate={float(rate)!r},nesterov={int(nesterov)}"


def make_compressor(text: str) -> Compressor:
    """Makes the compressor that a command line names: a preset, with arguments or without, or a spec.

    Args:
      text: "topk", "topk(0.001, value='fp16')", or "residual|topk:ratio=0.01|bitmap|quantile".

    Raises:
      ValueError: It is neither, or its arguments are not literals that the preset takes.
    """
    if is_spec(text):
        return Compressor(text)
    name, arguments, keywords = _parse_call(text)
    presets = [preset for preset in vars(Compression) if not preset.startswith("_")]
    if name not in presets:
        raise ValueError(f"unknown preset '{name}'; known: {', '.join(presets)}; or write a spec with '|'")
    preset = getattr(Compression, name)
    if isinstance(preset, Compressor):
        if arguments or keywords:
            raise ValueError(f"'{name}' takes no arguments")
        return preset
    try:
        return preset(*arguments, **keywords)
    except TypeError as error:
        raise ValueError(f"{text}: {error}") from error


def _parse_call(text: str) -> tuple[str, list, dict]:
    """Splits "name(1, a=2)" without evaluating anything but literals."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if isinstance(call, ast.Name):
            return call.id, [], {}
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise ValueError("not a call of a name")
        keywords = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
        return call.func.id, [ast.literal_eval(each) for each in call.args], keywords
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"'{text}' is no preset like topk or topk(ratio=0.001), and no spec") from error
