"""Presets: compressors by name."""

import ast
import dataclasses
from typing import Any

from tfcompress.auto import Auto
from tfcompress.catalogue import is_spec
from tfcompress.paper_presets import PaperPresets, momentum_spec
from tfcompress.policy import Compressor, Exclusion
from tfcompress.schedule import Schedule

# Of `sparse`: ratios of the stages of its warm-up, and how many times as many elements sums of shards send.
_WARMUP_RATIOS = (0.3, 0.1, 0.03)
_MORE_OF_SUMS = 2.0


class Compression(PaperPresets):
    """Named compressors, to be passed as `compression=`.

    `none`, `fp16` and `bf16` are attributes, as Horovod's are; every other preset is a function. Arguments
    of the papers' presets default to the paper's setting but for those that docs/papers.md#settings lists.
    They take the policy of `Compressor` in the same order, as far as it is for them: `min_elements`, `seed`,
    `exclude`, `row_sparsifier`, `row_residual`, `clip_norm`, and `exchange`, or `payload_dtype` where
    payloads are summed. The docstrings say what a preset costs and where not to use it, from the
    measurements in docs/results.md, docs/convergence.md and docs/codecs.md.

    Attributes:
      none: Horovod's own all-reduce of the gradients as they are.
      fp16: Horovod's own all-reduce in half precision: 2 times fewer bytes.
      bf16: The same bytes in bfloat16, which has float32's range, exchanged as `int8`; sums are made in
        float32, and tensors of fewer than 1024 elements travel exactly.
    """

    none = Compressor("dense|raw|raw")
    fp16 = Compressor("dense|raw|fp16")
    bf16 = Compressor("dense|raw|bf16", exchange="auto")

    @staticmethod
    def auto(
        allow: str = "dense",
        *,
        ratio: float = 0.1,
        warmup_steps: int = 100,
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        clip_norm: float | None = None,
    ) -> Auto:
        """The fastest of `none`, `fp16`, `bf16`, `int8` and `int4` on this job's own links, by measurement.

        All of them send every element, with error feedback where it is rounded: accuracy is that of the
        uncompressed run in what was measured (docs/no_loss.md). Before the first step ranks time collectives
        and codecs, about a second; what may be the fastest is tried in training, 12 to 39 steps each, most
        where steps are short, and up to twice as many where chance may hide a difference. Ranks look again
        after 500 steps, and whenever the time of steps changes by half. One line on rank 0 tells the choice,
        `tfc.stats(...)` shows it. Costs 4 bytes of residual an element where a candidate with a residual is
        near the fastest. Two runs may choose differently: pass the preset that was chosen to repeat one.
        Elastic jobs, TF1-style graphs and one rank take `int8`; Horovod's own wrappers refuse it.

        Args:
          allow: What may be sent: "dense", every element; "sparse", also the largest ones only: `sparse` or
            `compact`, where their exchange is expected to be twice as fast as that of any other, which is
            told before the first step. Beside an optimizer whose momentum their memory cannot take every
            element is sent. Under a tape nothing has told what the optimizer is, and the memory has no
            momentum: that costs accuracy, see `topk`.
          ratio: See `sparse`.
          warmup_steps: See `sparse`.
          min_elements, seed, exclude, clip_norm: See `Compressor`.

        Raises:
          ValueError: `allow` is neither.
        """
        if allow not in ("dense", "sparse"):
            raise ValueError(f"allow must be 'dense' or 'sparse', got {allow!r}")
        policy: dict[str, Any] = {
            "min_elements": min_elements,
            "seed": seed,
            "exclude": exclude,
            "clip_norm": clip_norm,
        }
        plain = {name: getattr(Compression, name) for name in ("none", "fp16", "bf16")}
        candidates = {name: dataclasses.replace(each, **policy) for name, each in plain.items()}
        int8, int4 = Compression.int8(**policy), Compression.int4(**policy)
        candidates |= {"int8": int8, "int4": int4}
        if allow == "dense":
            return Auto(tuple(candidates.items()), fallback="int8")
        sparse = Compression.sparse(ratio, warmup_steps=warmup_steps, **policy)
        compact = Compression.compact(ratio, warmup_steps=warmup_steps, **policy)
        return Auto(tuple(candidates.items()), "int8", (("sparse", sparse), ("compact", compact)))

    @staticmethod
    def int8(
        block: int = 256,
        *,
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        exchange: str = "auto",
    ) -> Compressor:
        """8-bit integers with a scale for each block, with error feedback on every way.

        Every element is sent, to the nearest of 255 levels of its block: nothing is lost that the residual
        does not keep. Costs 8.1 bits an element and 4 bytes of residual; a rank's bytes do not grow with the
        number of ranks: two gather their frames, more sum by shards. Tensors of one dimension (biases,
        normalisation) travel exactly. Not where links are slower than about a Gbit/s and the fastest steps
        count: `topk` sends less.

        Args:
          block: Values that share a scale: 16, 64, 256 or 1024.
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        policy = (min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange)
        return _block_int("bits=8", block, *policy)

    @staticmethod
    def int4(
        block: int = 256,
        *,
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = True,
        clip_norm: float | None = None,
        exchange: str = "auto",
    ) -> Compressor:
        """As `int8` with 4 bits: 15 levels of each block, half the bytes.

        Magnitudes of levels are squares, 1/49 to 1 of the block's largest, so that what is small is not
        rounded to zero beside what is large (docs/no_loss.md has what even levels lose). Costs 4.1 bits an
        element and 4 bytes of residual, of embeddings too. Not without the residual: one step keeps about
        18 dB of a normal gradient.

        Args:
          block: Values that share a scale: 16, 64, 256 or 1024.
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        policy = (min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange)
        return _block_int("bits=4,levels=square", block, *policy)

    @staticmethod
    def sparse(
        ratio: float = 0.1,
        *,
        warmup_steps: int = 100,
        momentum: float | None = None,
        index: str = "delta_adaptive",
        value: str = "block_int:bits=3,block=64",
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        clip_norm: float | None = None,
        exchange: str = "auto",
    ) -> Schedule:
        """Top-k that keeps the accuracy: many elements in few bits each, and the momentum where it belongs.

        Ten per cent of the elements, each in three bits, take about twice the bytes of 1 % in float32.
        The momentum of Adam, AdamW and RMSprop goes to the memory, as in `dgc`; SGD keeps its own. Tensors of
        one dimension are exact. Costs some 8 bits an element sent, index included, 20 ns to encode and 10 to
        decode it, and 8 bytes of memory an element, 4 beside SGD. By shards on more than two ranks, whose
        sums send twice as many elements: bytes do not grow with the ranks. On links of less than some
        25 Mbit/s `compact` is faster. Not for embeddings: their rows are sent as they are, and tables that
        are dense tensors lost two points (docs/no_loss.md). Not at a learning rate that is too high, where
        it loses before the uncompressed run does. Not under a tape beside Adam, which does not tell the
        optimizer: the memory has no momentum then.

        Args:
          ratio: Share of the elements that is sent after the warm-up, in (0, 1]. With less, training has to
            be longer, and its warm-up, too; 0.3 keeps more of a ResNet's accuracy in few epochs
            (docs/no_loss.md).
          warmup_steps: In its parts, which are equally long, 30, 10 and 3 % of the elements are sent, where
            that is more than `ratio`. 0 for none; for epochs, their number times the steps of one.
          momentum: Of the memory, in [0, 1), for optimizers without. None (default): as above; without an
            optimizer that has one, and under a tape, the memory is `residual`.
          index: Index codec.
          value: Value codec.
          min_elements, seed, exclude, clip_norm, exchange: See `Compressor`.
        """
        policy = (min_elements, seed, exclude, clip_norm, exchange, momentum)
        return _warmed_up(ratio, f"{index}|{value}", warmup_steps, True, *policy)

    @staticmethod
    def compact(
        ratio: float = 0.1,
        *,
        warmup_steps: int = 100,
        momentum: float | None = None,
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        clip_norm: float | None = None,
        exchange: str = "auto",
    ) -> Schedule:
        """`sparse` in two fifths fewer bytes, for links of less than some 25 Mbit/s.

        The same elements, coded by `rowcol` and `ecsq`: 32 to 108 times fewer bytes than without compression
        in what was measured. Under Adam it was mostly ahead, under SGD 0.2 points behind on Fashion-MNIST and
        1.4 with ResNet-20 after three epochs (docs/no_loss.md). Costs some 5 bits an element sent, index
        included, 50 ns to encode and as much to decode it, and the memory of `sparse`. Not on faster links,
        where `sparse` takes less time, nor for embeddings: tables that were dense tensors lost three points.

        Args:
          ratio, warmup_steps, momentum: See `sparse`.
          min_elements, seed, exclude, clip_norm, exchange: See `Compressor`.
        """
        policy = (min_elements, seed, exclude, clip_norm, exchange, momentum)
        return _warmed_up(ratio, "rowcol|ecsq:snr=15", warmup_steps, True, *policy)

    @staticmethod
    def smallest(
        ratio: float = 0.002,
        *,
        warmup_steps: int = 1000,
        momentum: float | None = None,
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        clip_norm: float | None = None,
        exchange: str = "auto",
    ) -> Schedule:
        """For the slowest links: `sparse` with fewer elements, and a warm-up, which these need.

        The memory takes SGD's momentum, too. Costs some 5 bits an element sent, index included; on an MLP of
        669,706 parameters 155 times fewer bytes than without compression, and 419 times after a warm-up that
        is a quarter of the training, 0.1 to 0.3 points behind (docs/convergence.md). Not where `sparse` is
        fast enough, which loses less. Tensors of one dimension travel exactly, and are most of the bytes of
        small models.

        Args:
          ratio: Share of the elements that is sent after the warm-up, in (0, 1].
          warmup_steps, momentum: See `sparse`.
          min_elements, seed, exclude, clip_norm, exchange: See `Compressor`.
        """
        policy = (min_elements, seed, exclude, clip_norm, exchange, momentum)
        return _warmed_up(ratio, "rowcol|ecsq:snr=10", warmup_steps, False, *policy)

    @staticmethod
    def topk(
        ratio: float = 0.01,
        *,
        index: str = "delta_binary",
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
        """Top-k with error feedback: sends the largest `ratio` of the elements of each tensor.

        Costs 42.6 bits an element sent, 3.5 memcpys of the tensor to encode, and 4 bytes of residual an
        element; a packet holds 39 to 73 times fewer bytes than the gradients (docs/results.md). Frames of
        all ranks are gathered: wire bytes grow with the ranks. This is the plain thing: `sparse` keeps more
        of the accuracy at fewer bytes. Not for short training: 4.3 points behind after 3 epochs of CIFAR-10,
        1.1 after 10 of Fashion-MNIST.

        Args:
          ratio: Share of the elements that is sent, in (0, 1].
          index: Index codec.
          value: Value codec.
          memory: "residual" keeps what is not sent for the next step; "none" drops it.
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        spec = f"{memory}|topk:ratio={float(ratio)!r}|{index}|{value}"
        return Compressor(
            spec, min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange
        )

    @staticmethod
    def threshold(
        tau: float = 0.01,
        *,
        index: str = "delta_binary",
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
        """Sends the elements whose magnitude is at least `tau`, with error feedback.

        Costs as much for an element sent as `topk`, and how many are sent follows the data: on the digits
        of the README a packet held 129 times fewer bytes than the gradients, encoded in three fifths of the
        time of `topk`. Not where the scale of the gradients is unknown or changes: a `tau` that suits the
        first epoch may send nothing in the last.

        Args:
          tau: Smallest magnitude that is sent, in the gradient's units; above 0.
          index: Index codec.
          value: Value codec.
          memory: "residual" keeps what is not sent for the next step; "none" drops it.
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        spec = f"{memory}|threshold:tau={float(tau)!r}|{index}|{value}"
        return Compressor(
            spec, min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange
        )

    @staticmethod
    def randomk(
        ratio: float = 0.01,
        *,
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
        """Sends a random `ratio` of the elements, which the frame's seed implies: no index is sent.

        Costs 32 bits an element sent and 4 bytes of residual an element. Not where few elements carry the
        gradient: which are sent does not depend on their magnitudes. `shared_randomk` sends the same bytes
        by all-reduce, which does not grow with the ranks.

        Args:
          ratio: Share of the elements that is sent, in (0, 1].
          value: Value codec.
          memory: "residual" keeps what is not sent for the next step; "none" drops it.
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange: See
            `Compressor`.
        """
        spec = f"{memory}|randomk:ratio={float(ratio)!r}|raw|{value}"
        return Compressor(
            spec, min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, exchange
        )

    @staticmethod
    def shared_randomk(
        ratio: float = 0.01,
        *,
        memory: str = "residual",
        min_elements: int = 1024,
        seed: int = 0,
        exclude: Exclusion = (),
        row_sparsifier: str | None = None,
        row_residual: bool | None = None,
        clip_norm: float | None = None,
        payload_dtype: str = "float32",
    ) -> Compressor:
        """Sends the same random `ratio` of the elements on all ranks, by all-reduce, without indices.

        Which elements is drawn anew at every step. Payload bytes do not grow with the number of ranks: 4
        bytes an element sent (docs/convergence.md). Not where few elements carry the gradient: of the 1,000
        largest of a heavy-tailed vector, a ratio of 0.05 found 5.4 % (docs/codecs.md).

        Args:
          ratio: Share of the elements that is sent, in (0, 1].
          memory: "residual" keeps what is not sent for the next step; "none" drops it.
          min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm, payload_dtype: See
            `Compressor`.
        """
        spec = f"{memory}|shared_randomk:ratio={float(ratio)!r}"
        policy = (min_elements, seed, exclude, row_sparsifier, row_residual, clip_norm)
        return Compressor(spec, *policy, payload_dtype=payload_dtype)


def _block_int(levels: str, block: int, *policy: Any) -> Compressor:
    spec = f"residual|dense|raw|block_int:block={int(block)},{levels}"
    return dataclasses.replace(Compressor(spec, *policy), min_dimensions=2)


def make_compressor(text: str) -> Compressor | Schedule | Auto:
    """Makes the compressor that a command line names: a preset, with arguments or without, or a spec.

    Args:
      text: "topk", "topk(0.001, value='fp16')", or "residual|topk:ratio=0.01|bitmap|quantile".

    Raises:
      ValueError: It is neither, or its arguments are not literals that the preset takes.
    """
    if is_spec(text):
        return Compressor(text)
    name, arguments, keywords = _parse_call(text)
    presets = [each for cls in Compression.__mro__ for each in vars(cls) if not each.startswith("_")]
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


def _warmed_up(ratio: float, codecs: str, warmup_steps: int, *policy: Any) -> Schedule:
    """Top-k of falling ratios in the warm-up, then of `ratio`."""
    stages = [_sparse(each, codecs, *policy) for each in _WARMUP_RATIOS if each > ratio]
    lengths = [
        warmup_steps * (i + 1) // len(stages) - warmup_steps * i // len(stages) for i in range(len(stages))
    ]
    return Schedule(
        [(length, stage) for length, stage in zip(lengths, stages, strict=True) if length],
        then=_sparse(ratio, codecs, *policy),
    )


def _sparse(
    ratio: float,
    codecs: str,
    leaves_sgd_momentum: bool,
    min_elements: int,
    seed: int,
    exclude: Exclusion,
    clip_norm: float | None,
    exchange: str,
    momentum: float | None,
) -> Compressor:
    """Top-k of a stage of `sparse`, `compact` or `smallest`; see there."""
    memory = "residual" if momentum is None else momentum_spec(momentum, nesterov=False)
    of_sums = min(1.0, _MORE_OF_SUMS * ratio)
    return Compressor(
        f"{memory}|topk:ratio={float(ratio)!r}|{codecs}",
        min_elements,
        seed,
        exclude,
        clip_norm=clip_norm,
        exchange=exchange,
        return_spec=f"topk:ratio={of_sums!r}|{codecs}",
        row_residual=False,
        min_dimensions=2,
        takes_momentum=momentum is None,
        leaves_sgd_momentum=leaves_sgd_momentum,
    )
