"""Presets of the papers, with their settings."""

from tfcompress.policy import Compressor, Exclusion


class PaperPresets:
    """The compressors of the papers; `tfcompress.Compression` has them all."""

    @staticmethod
    def sketchml(
        buckets: int = 256,
        groups: int = 8,
        rows: int = 2,
        columns: float = 0.2,
        *,
        sparsifier: str = "nonzero",
        memory: str = "none",
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        exchange: str = "gather",
    ) -> Compressor:
        """SketchML: quantile buckets in grouped MinMaxSketches, delta-binary keys (sections 3.2 to 3.4).

        Decoded gradients never change sign and never grow, but shrink where keys collide: the paper trains
        with Adam (section 3.3). Costs 19 bits an element sent at a density of 1 %, with a relative error of
        0.08 to 0.78 on this repository's gradients (docs/results.md). Not for dense gradients: 3.7 times
        fewer bytes on the digits for 14 times the encoding time of `topk`; `skcompress` is smaller with the
        same error.

        Args:
          buckets: Quantile buckets of each sign (256 in the paper).
          groups: MinMaxSketches of each sign (8 in the paper, perhaps of both).
          rows: Hash rows of a sketch (2 in the paper).
          columns: Columns of a row, as a share of the keys in it (a fifth in the paper).
          sparsifier: What chooses the keys; the paper's gradients are sparse by themselves.
          memory: "none" as in the paper, or "residual".
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        joint = (
            f"sketchml:buckets={int(buckets)},groups={int(groups)},rows={int(rows)},"
            f"columns={float(columns)!r}"
        )
        spec = f"{memory}|{sparsifier}|{joint}"
        return Compressor(
            spec, min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange
        )

    @staticmethod
    def skcompress(
        buckets: int = 256,
        groups: int = 8,
        rows: int = 2,
        columns: float = 0.2,
        *,
        sparsifier: str = "nonzero",
        memory: str = "none",
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        exchange: str = "gather",
    ) -> Compressor:
        """SKCompress: SketchML with Huffman-coded sketch cells (4.3) and adaptive delta keys (5.2).

        Section 7.1 has quantile sketches of size 128; the default is SketchML's 256. Buckets and groups are
        counted for each sign. Like SketchML it trains with Adam. Sends only elements other
        than zero: 5.7 times fewer payload bytes than plain rows on a linear model of 10M dimensions, 6.4 on
        NeuMF, 6.8 on MNIST without loss of accuracy (docs/results.md). Not where the network is fast:
        encoding takes 10.8 memcpys of the tensor (docs/codecs.md). Not for long training of embeddings: on
        NeuMF 2.3 points of HR@10 behind after ten epochs, where `int4` was 0.07 (docs/no_loss.md).

        Args:
          buckets: Quantile buckets of each sign (128 in section 7.1).
          groups: MinMaxSketches of each sign (8 in the paper, perhaps of both).
          rows: Hash rows of a sketch (2 in the paper).
          columns: Columns of a row, as a share of the keys in it (a fifth in the paper).
          sparsifier: What chooses the keys; the paper's gradients are sparse by themselves.
          memory: "none" as in the paper, or "residual".
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        joint = (
            f"skcompress:buckets={int(buckets)},groups={int(groups)},rows={int(rows)},"
            f"columns={float(columns)!r}"
        )
        spec = f"{memory}|{sparsifier}|{joint}"
        return Compressor(
            spec, min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange
        )

    @staticmethod
    def deepreduce(
        ratio: float = 0.01,
        policy: str = "p2",
        fpr: float = 0.001,
        *,
        index: str = "bloom",
        value: str = "raw",
        memory: str = "residual",
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        exchange: str = "gather",
    ) -> Compressor:
        """DeepReduce on top of Top-r: a Bloom filter for the indices, any codec for the values.

        The default is the paper's DR[BF-P2] of section 6.3 (Top-r 1 %, false-positive rate 0.001);
        `value="dexp"` adds Fit-DExp with the permutation of section 5.1. A filter takes 14.4 bits an index
        where `topk` takes 10.6, and about 30 memcpys of the tensor to encode and to decode. Not for rows of
        large tables: steps took 1.3 to 1.9 times as long as without compression (docs/results.md). It is here
        to reproduce the paper; `topk` is smaller and faster.

        Args:
          ratio: Share of the elements that the sparsifier chooses, in (0, 1].
          policy: "p0" sends a value for every false positive; "p1" and "p2" choose r of the positives;
            "leftmost", "middle", "rightmost" are those of section 10.4; "naive" is the strawman.
          fpr: False-positive rate of the filter, in (0, 1).
          index: Index codec; `policy` and `fpr` belong to "bloom".
          value: Value codec: "raw", "fp16", "bf16", "quantile", "dexp".
          memory: "residual" as in the paper, or "none".
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        if index == "bloom":
            index = f"bloom:policy={policy},fpr={float(fpr)!r}"
        spec = f"{memory}|topk:ratio={float(ratio)!r}|{index}|{value}"
        return Compressor(
            spec, min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange
        )

    @staticmethod
    def dgc(
        ratio: float = 0.001,
        momentum: float | None = None,
        *,
        nesterov: bool = False,
        index: str = "delta_binary",
        value: str = "raw",
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        exchange: str = "gather",
    ) -> Compressor:
        """Deep Gradient Compression: Top-k of velocities that were kept back, with momentum factor masking.

        The momentum is in here (momentum correction, section 3.1): that of SGD, Adam, AdamW or RMSprop which
        `tfc.DistributedOptimizer` wraps. The paper raises the sparsity over the first four epochs (section
        3.3): `tfc.Schedule.warmup(compressor, steps_per_epoch)`; `sparse` has a warm-up. Costs what `topk`
        costs and 8 bytes of memory an element; with equal bytes it was closer to the uncompressed run: 0.4
        points behind instead of 0.9 on Fashion-MNIST, 4 ranks, 2 % (docs/convergence.md). Not for embeddings,
        whose rows are sent as they are.

        Args:
          ratio: Share of the elements that is sent, in (0, 1] (0.1 % in the paper).
          momentum: Decay of the velocity at each step, in [0, 1). None (default): the optimizer's, Nesterov's
            form with it; 0.9 where it has none, and with a tape or Horovod's own wrappers. A number is
            refused beside an optimizer that has a momentum.
          nesterov: Whether the momentum is Nesterov's, where it is not the optimizer's.
          index: Index codec.
          value: Value codec.
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        spec = f"{momentum_spec(momentum, nesterov)}|topk:ratio={float(ratio)!r}|{index}|{value}"
        policy = (min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange)
        return Compressor(spec, *policy, takes_momentum=momentum is None)

    @staticmethod
    def sketched_sgd(
        k: int = 100_000,
        rows: int = 5,
        columns: int = 1_000_000,
        candidates: int = 36,
        momentum: float | None = None,
        *,
        recovery: str = "top",
        nesterov: bool = False,
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = ("bias",),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        payload_dtype: str = "float32",
    ) -> Compressor:
        """Sketched-SGD, Algorithm 3: an all-reduced Count Sketch, exact values in a second round.

        All gradients together are one vector and one sketch (under Horovod's own wrappers, each by itself).
        The defaults are the paper's for its transformer (section 5.3): 20 times less traffic as the paper
        counts, 10.5 times fewer bytes than an all-reduce of the gradients; 40 and 20.9 times: rows=15,
        columns=180_000, candidates=16. CIFAR-10: k=50_000, columns=500_000. Payload bytes do not
        grow with the number of ranks: with a million elements and a thousand applied, `topk` was cheaper up
        to about 113 ranks (docs/convergence.md). Not for models with fewer elements than rows * columns +
        candidates * k, 8.6 million here: their gradients travel uncompressed. The momentum is in here, as in
        `dgc`.

        Args:
          k: Elements that a step applies.
          rows: Rows of the sketch, an odd number.
          columns: Columns of the sketch.
          candidates: Elements whose exact values are summed in the second round, for each one that is
            applied: the paper's P.
          momentum: Decay of the velocity at each step, in [0, 1); None (default) as in `dgc`.
          recovery: "top": the candidates * k largest estimates (Algorithm 3); "heavymix": Algorithm 1.
          nesterov: As in `dgc`.
          exclude: What travels uncompressed: biases, as in the paper; see `Compressor`.
          min_elements, seed, row_sparsifier, row_residual, clip_norm, payload_dtype: See `Compressor`.
        """
        codec = (
            f"count_sketch:rows={int(rows)},columns={int(columns)},k={int(k)},"
            f"candidates={int(candidates)},recovery={recovery}"
        )
        spec = f"{momentum_spec(momentum, nesterov)}|{codec}"
        policy = (min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm)
        return Compressor(spec, *policy, payload_dtype=payload_dtype, takes_momentum=momentum is None)

    @staticmethod
    def qsgd(
        bits: int = 7,
        bucket: int = 512,
        *,
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        exchange: str = "gather",
    ) -> Compressor:
        """QSGD: every element on a stochastic grid, scaled by the l2 norm of its bucket; unbiased.

        DeepReduce (section 6.3) uses 7 bits and buckets of 512. Costs 7.06 bits an element, with a
        signal-to-noise ratio of 16.7 dB and no memory (docs/codecs.md). Not where an unbiased code is not
        needed: `zipml(bits=8)` has 8 bits and 35 to 39 dB on Gaussian and Laplacian values.

        Args:
          bits: Bits of an element, sign included; 2 to 8.
          bucket: Elements that share a norm.
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        spec = f"dense|raw|qsgd:bits={int(bits)},bucket={int(bucket)}"
        return Compressor(
            spec, min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange
        )

    @staticmethod
    def terngrad(
        clip: float = 2.5,
        *,
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        exchange: str = "gather",
    ) -> Compressor:
        """TernGrad: every element as -1, 0 or 1 times the layer's scale, stochastically.

        Costs 1.6 bits an element and no memory. The noise is larger than the gradient: without clip a
        relative error of 0.9 to 4.0 on this repository's gradients (docs/results.md). Not for few ranks,
        whose mean keeps most of the noise; `onebit` has a smaller error and feeds it back.

        Args:
          clip: Magnitudes are clipped at this many standard deviations (2.5 in the paper); 0 does not clip,
            and then the code is unbiased.
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        spec = f"dense|raw|ternary:clip={float(clip)!r}"
        return Compressor(
            spec, min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange
        )

    @staticmethod
    def zipml(
        bits: int = 16,
        *,
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        exchange: str = "gather",
    ) -> Compressor:
        """ZipML's uniform fixed-point grid over the range of each tensor.

        Costs 8 or 16 bits an element and 7.3 memcpys of the values to encode. SKCompress (section 7.1) had
        to give it two bytes for convergence; with one, Gaussian values have 39 dB, Student's t3 16
        (docs/codecs.md). Not with 8 bits for gradients with outliers, which set the step of the grid for
        all.

        Args:
          bits: Bits of an element: 8 or 16.
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        spec = f"dense|raw|uniform:bits={int(bits)}"
        return Compressor(
            spec, min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange
        )

    @staticmethod
    def onebit(
        *,
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        exchange: str = "gather",
    ) -> Compressor:
        """1-bit SGD: the sign of every element and the mean magnitude of each sign, with error feedback.

        Costs 1 bit an element on the wire and 4 bytes of residual an element; a step keeps 2 to 4.4 dB
        (docs/codecs.md), the residual holds the rest. Not for embeddings without `row_residual=True`: rows
        have no residual by default, and what their signs do not tell is lost.

        Args:
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        spec = "residual|dense|raw|sign"
        return Compressor(
            spec, min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange
        )

    @staticmethod
    def logquant(
        bits: int = 8,
        rounding: str = "nearest",
        *,
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        exchange: str = "gather",
    ) -> Compressor:
        """Base-2 logarithmic quantisation of every element, which FastSGD compares itself with.

        Costs 8 bits an element and no memory, with 13.5 to 13.9 dB whatever the distribution
        (docs/codecs.md). Not where magnitudes are alike: `zipml(bits=8)` has 39 dB on Gaussian values for
        the same bytes.

        Args:
          bits: Bits of an element, sign included; 2 to 8.
          rounding: "nearest", or "random" for natural compression (Horváth et al., 2019): up or down by
            chance, so that the mean of many is right, with 11 dB.
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        spec = f"dense|raw|logquant:bits={int(bits)},rounding={rounding}"
        return Compressor(
            spec, min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange
        )

    @staticmethod
    def threelc(
        multiplier: float = 1.0,
        *,
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        exchange: str = "gather",
    ) -> Compressor:
        """3LC: three values, five to a byte, runs of zeros shortened; with error feedback.

        DeepReduce (section 6.3) compares with a sparsity multiplier of 1. Costs at most 1.6 bits an element
        and 4 bytes of residual an element; of a gradient with 10 % of its elements other than zero a step
        keeps 0.2 dB, the residual holds the rest (docs/codecs.md). Not for embeddings: it codes dense
        gradients only, and rows of tables travel through `nonzero|delta_binary|raw`.

        Args:
          multiplier: Sparsity multiplier, in [1, 2): the larger, the more zeros.
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        spec = f"residual|dense|threelc:multiplier={float(multiplier)!r}"
        return Compressor(
            spec, min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange
        )

    @staticmethod
    def powersgd(
        rank: int = 4,
        *,
        warm_start: bool = True,
        memory: str = "residual",
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        payload_dtype: str = "float32",
    ) -> Compressor:
        """PowerSGD (Vogels, Karimireddy and Jaggi, NeurIPS 2019): low-rank factors, summed by all-reduce.

        A gradient is a matrix whose columns are its last dimension: kernels of convolutions have everything
        else as rows. Costs 4 `rank` (rows + columns) bytes of it, in two all-reduces a step for all matrices
        together, whatever the number of ranks, and 4 bytes of residual an element. Tensors of one dimension,
        small ones, and matrices whose factors would not be smaller travel exactly. The optimizer's momentum
        stays its own. On the digits, 60 times fewer bytes than uncompressed at the same accuracy
        (docs/choose.md), on Fashion-MNIST 0.5 points behind (README.md); encoding a matrix of 2048 x 2048
        takes about 2 memcpys, decoding 4 to 5. Not where matrices are narrow, nor for embeddings, whose
        rows are sent as they are.

        Args:
          rank: Vectors of each factor: 1 to 1024; 2 to 4 in the paper.
          warm_start: Whether a step begins with the right factors of the one before, as in the paper, which
            costs 4 `rank` bytes a column; else with random ones.
          memory: "residual" keeps what the approximation leaves out for the next step; "none" drops it.
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, payload_dtype: See
            `Compressor`.
        """
        spec = f"{memory}|powersgd:rank={int(rank)},warm_start={int(warm_start)}"
        policy = (min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm)
        return Compressor(spec, *policy, payload_dtype=payload_dtype)

    @staticmethod
    def fastsgd(
        base: float = 1.1,
        tau: int = 0,
        flag_bits: int = 2,
        *,
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        exchange: str = "gather",
    ) -> Compressor:
        """FastSGD: logarithms of reciprocals, filtered by a threshold, and delta keys with length flags.

        Base and flags are the paper's (section 3). Elements whose code is above the threshold `tau` are
        not sent: those smaller than the sum of the magnitudes of the gradient by a factor of
        base ** tau. The paper's 128 keeps at most 2e5 elements of each gradient, and of a dense gradient
        of a million elements next to none; so by default the threshold is 128, or the code of the mean
        magnitude where that is larger. On MNIST a packet held 9.7 times fewer bytes than the gradients
        with the paper's 128, without loss of accuracy (docs/results.md). Not where nothing may be lost:
        there is no error feedback.

        Args:
          base: Base of the logarithm, above 1.
          tau: Largest code that is sent; 0 for the larger of 128 and the code of the mean magnitude.
          flag_bits: Bits of a key's length flag.
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        value = f"log:base={float(base)!r},tau={int(tau)}"
        spec = f"nonzero|delta_flag:flag_bits={int(flag_bits)}|{value}"
        return Compressor(
            spec, min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange
        )


def momentum_spec(rate: float | None, nesterov: bool) -> str:
    """Returns the memory `momentum` as specs write it; None is what counts where no optimizer has one."""
    return f"momentum:rate={0.9 if rate is None else float(rate)!r},nesterov={int(nesterov)}"
