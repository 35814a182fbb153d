"""The command line: `irscope lab`, `irscope show FILE`, `irscope report FILE -o out.html`, `irscope opt FILE -p PASSES`, …"""

import argparse
import os
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from inspect import isfunction, signature
from io import TextIOWrapper
from math import prod
from pathlib import Path
from typing import Any

from irscope import __version__
from irscope._base.isolated import machine_memory
from irscope._base.words import byte_count, listed, plural, printable
from irscope.errors import ArgumentError, IrscopeError, MissingExtra
from irscope.files import write_file


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. A user's mistake prints one message and no traceback."""
    parser = _parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help(sys.stderr)
        return 2
    options, others = parser.parse_known_args(arguments)
    if others and options.run is not _lab:
        parser.error(f"unknown arguments: {' '.join(others)}")
    options.given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):  # characters that the terminal's encoding lacks are escaped, as `\\xb7`
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = int(options.run(options) or 0)
        if sys.stdout is not None:  # it is None if the shell has closed it
            sys.stdout.flush()
        return status
    except IrscopeError as error:
        print(printable(f"irscope: {error}"), file=sys.stderr)
        return 2
    except BrokenPipeError:  # `irscope show FILE | head`
        sys.stderr.close()
        return 0
    except OSError as error:  # files raise errors of their own: this one is of the output
        print(f"irscope: the output cannot be written: {error.strerror or error}", file=sys.stderr)
        with suppress(OSError, ValueError, AttributeError):  # Python would try again at its end, and print a traceback
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except KeyboardInterrupt:
        print("irscope: interrupted", file=sys.stderr)
        return 130


_TOUR = "00_tour.ipynb"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="irscope", description="See what may share memory, what fuses, what repeats, and why.")
    parser.add_argument("--version", action="version", version=f"irscope {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    lab = commands.add_parser(
        "lab", help="open JupyterLab on the tour notebook; further options, such as --no-browser, are passed on to it"
    )
    lab.add_argument("notebook", nargs="?", default=_TOUR, help="another notebook to open")
    lab.set_defaults(run=_lab)

    show = commands.add_parser("show", help="print a program, what fuses and what repeats in it")
    _add_source(show)
    show.add_argument("--alias", nargs=2, metavar=("A", "B"), help="say whether two values may share memory, and why")
    show.add_argument("--why-not", nargs=2, metavar=("A", "B"), help="say why two nodes did not fuse")
    show.add_argument("--fused", action="store_true", help="print the program with its fusion groups")
    show.set_defaults(run=_show)

    report = commands.add_parser("report", help="write one HTML page with all views")
    _add_source(report)
    report.add_argument("-o", "--output", default="report.html", help="where to write it (default: %(default)s)")
    report.add_argument("--sources", metavar="FOLDER", help="show source lines of the files in this folder that the program refers to")
    report.add_argument(
        "--answers", action=argparse.BooleanOptionalAction,
        help="include answers about every value and node (default: with up to 50,000 nodes)",
    )  # fmt: skip
    report.set_defaults(run=_report)

    differ = commands.add_parser("diff", help="say how two programs differ, node by node")
    differ.add_argument("first", help="a program's file, or module:name (or path.py:name)")
    differ.add_argument("second", help="the other one")
    _add_input(differ)
    differ.add_argument("--fused", action="store_true", help="compare them after fusion")
    differ.add_argument("--html", metavar="OUT", help="write one HTML page with both, side by side")
    _add_reading(differ)
    differ.set_defaults(run=_diff)

    decisions = commands.add_parser("decisions", help="say what another compiler decided: its kernels, library calls, and why")
    decisions.add_argument("source", help="module:name (or path.py:name), a model's file, HLO text, or a folder of TORCH_TRACE logs")
    _add_input(decisions)
    decisions.add_argument(
        "--compiler", metavar="NAMES", action="append", default=[],
        help="inductor, xla, onnxruntime or iree (default: by the source, inductor for torch); several, with commas between: side by side",
    )  # fmt: skip
    decisions.add_argument("--why-not", nargs=2, metavar=("A", "B"), help="say why two ops are not in one kernel")
    decisions.add_argument("--html", metavar="OUT", help="write one HTML page with all views")
    decisions.set_defaults(run=_decisions)

    _add_opt(commands)
    _add_profile(commands)
    _add_survey(commands)

    cache = commands.add_parser("cache", help="show or empty the directory of compiled kernels")
    cache.add_argument("action", nargs="?", choices=("info", "clear"), default="info", help="what to do (default: info)")
    cache.add_argument("--device", choices=("cpu", "cuda"), help="only the kernels of this device")
    cache.set_defaults(run=_cache)
    return parser


def _add_opt(commands: Any) -> None:
    from irscope.transforms.pipeline import PASSES

    width, passes = max(map(len, PASSES)), ""
    for known in PASSES.values():
        options = f"\n  {'':{width}}  {{{','.join(known.options)}}}" if known.options else ""
        passes += f"  {known.name:{width}}  {known.doc}{options}\n"
    opt = commands.add_parser(
        "opt", help="run passes over a program and print the result",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run passes over a program and print the result as IR text; everything else is printed as # comments.",
        epilog="passes:\n" + passes + "\nexample:\n  irscope opt program.ir -p 'functionalize,cse,fuse{min_size=3},dce' --remarks missed",
    )  # fmt: skip
    _add_source(opt)
    opt.add_argument("-p", "--passes", required=True, metavar="PIPELINE", help="comma-separated names, options in braces")
    opt.add_argument("-o", "--output", metavar="OUT", help="write the program to a file instead of printing it")
    opt.add_argument(
        "--remarks", nargs="?", const="all", choices=("all", "passed", "missed"), help="print what was done, what was not, and why"
    )
    opt.add_argument("--print-after", action="append", default=[], metavar="PASS", help="print the program after this pass, too")
    opt.add_argument("--verify-each", action="store_true", help="check the program after each pass")
    opt.add_argument("--time", action="store_true", help="print a table of passes, nodes and seconds to standard error")
    opt.set_defaults(run=_opt)


def _add_profile(commands: Any) -> None:
    profile = commands.add_parser("profile", help="say where the time, the bytes and the memory of a run go, and what would help")
    profile.add_argument("source", help="a program's file, or module:name (or path.py:name): a function, a model, or a model's builder")
    _add_input(profile)
    profile.add_argument("--seconds", type=float, default=2.0, help="how long to measure (default: %(default)s)")
    profile.add_argument("--device", choices=("cpu", "cuda"), help="where to run (default: where the arguments lie)")
    profile.add_argument("--threads", type=int, help="how many (default: torch's number; one if other programs are busy)")
    profile.add_argument("--by", choices=("node", "group", "op", "module", "line", "class"), help="print this table too")
    profile.add_argument("--html", metavar="OUT", help="write one HTML page with the pictures")
    profile.add_argument("--trace", metavar="OUT", help="write a trace for Perfetto")
    profile.add_argument("--speedscope", metavar="OUT", help="write a file for speedscope")
    _add_reading(profile)
    profile.set_defaults(run=_profile)


def _add_survey(commands: Any) -> None:
    survey = commands.add_parser("survey", help="say what many models have in common: which kernels they share, and what is never fused")
    survey.add_argument("sources", nargs="+", metavar="FOLDER", help="folders of programs, and programs")
    survey.add_argument("--out", required=True, metavar="DIR", help="where to write it; an interrupted survey resumes from there")
    survey.add_argument("--scheduler", metavar="ADDRESS", help="use the workers of this Dask cluster")
    survey.add_argument("--processes", type=int, metavar="N", help="worker processes on this machine (default: one per core)")
    survey.add_argument("--seconds", type=int, default=300, help="processor time for each model (default: %(default)s)")
    survey.add_argument("--memory", type=float, metavar="GB", help="memory for each model (default: a process's share)")
    survey.add_argument("--policy", default="greedy", help="how to fuse: greedy, min-bytes or torch-legacy (default: %(default)s)")
    survey.add_argument("--compiler", choices=("inductor",), help="group the programs as this compiler does")
    survey.add_argument("--trust", action="store_true", help="let files run code of their authors when they are loaded")
    survey.set_defaults(run=_survey)


def _add_source(parser: argparse.ArgumentParser) -> None:
    files = "IR text (.ir), TorchScript (.pt), an exported program (.pt2), ONNX (.onnx), MLIR (.mlir) or HLO (.hlo)"
    parser.add_argument("file", help=f"{files}, or module:name (or path.py:name)")
    parser.add_argument("--input", action="append", default=[], metavar="TYPE", help="one example argument; once per input, as --args")
    parser.add_argument(
        "--args", dest="input", nargs="*", default=[], action="extend", metavar="TYPE",
        help="example arguments, such as float32[1,3,416,416], filled with random numbers",
    )  # fmt: skip
    _add_reading(parser)


def _add_input(parser: argparse.ArgumentParser) -> None:
    """The example arguments, all after one option or each after its own."""
    parser.add_argument(
        "--input", "--args", nargs="*", default=[], action="extend", metavar="TYPE",
        help="example arguments, such as float32[1,3,416,416], filled with random numbers",
    )  # fmt: skip


def _add_reading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--graph", metavar="NAME", help="of a file of several functions, this one with its calls inlined")
    parser.add_argument("--trust", action="store_true", help="let the file run code of its author when it is loaded (see SECURITY.md)")
    parser.add_argument(
        "--missing-weights", choices=["inputs"], help="read an ONNX model whose weights are not there: they are inputs of known types"
    )


def _load(options: argparse.Namespace) -> Any:
    from irscope.session import load

    program, examples = _named(options.file, options)
    return load(program, *examples, **_reading(options))


def _named(source: str, options: argparse.Namespace) -> tuple[Any, list[Any]]:
    """Return what the name of a file, or of something in a module, means, and its example arguments: those that were given, or those
    that come with it. Raises ArgumentError."""
    from numpy import ndarray

    if ":" not in source or Path(source).exists():
        if source.endswith(".py") and Path(source).is_file():
            raise ArgumentError(f"{source!r} holds Python: say which function or model of it", hint=f"write {source}:NAME")
        return source, [_example(text) for text in options.input]
    if getattr(options, "graph", None) or getattr(options, "missing_weights", None):
        raise ArgumentError("--graph and --missing-weights are for files", hint=f"{source!r} is imported: leave them out")
    program, defaults = _import_program(source)
    given = [_example(text) for text in options.input] or defaults  # tensors, now that the module has imported torch
    if not given:
        hint = "give one array type for each: --args 'float32[4,8]'; or name a function that returns the model and its arguments"
        raise ArgumentError(f"{source!r} comes without example arguments", hint=hint)
    if not _is_torchs(program):
        given = [array.numpy() if hasattr(array, "numpy") and not isinstance(array, ndarray) else array for array in given]
    return program, given


def _reading(options: argparse.Namespace) -> dict[str, Any]:
    return {"graph": options.graph, "trust": options.trust, "missing_weights": options.missing_weights}


def _show(options: argparse.Namespace) -> None:
    from irscope import AliasDb, Module, fuse
    from irscope.display.text import overview
    from irscope.ir.module import public_graphs
    from irscope.report.pages import Exploration
    from irscope.report.pages.parts import explorer_view
    from irscope.session import one_graph

    program = _load(options)
    asks = options.alias or options.why_not
    names = [""] if asks or not isinstance(program, Module) else public_graphs(program) or [""]
    for name in names:
        graph = one_graph(program, name)
        if options.alias:
            print(AliasDb(graph).explain(*options.alias))
            return
        fusion = fuse(graph)
        if options.why_not:
            print(fusion.why_not(*options.why_not))
            return
        if len(names) > 1:
            print(f"# {name}")
        print(fusion.graph if options.fused else graph)
        for line in overview(explorer_view(Exploration(fusion))).splitlines():
            print(f"# {line}".rstrip())  # so that what is printed of one graph can be read again


def _opt(options: argparse.Namespace) -> None:
    from irscope import Pipeline
    from irscope.session import one_graph

    pipeline = Pipeline(options.passes)
    unknown = set(options.print_after) - {stage.name for stage in pipeline.stages}
    if unknown:
        stages = ", ".join(stage.name for stage in pipeline.stages)
        raise ArgumentError(f"--print-after {sorted(unknown)[0]}: the pipeline has no such pass", hint=f"it runs: {stages}")
    graph = one_graph(_load(options))
    done = pipeline(graph, verify_each=options.verify_each)
    for record, stage in zip(done.records, done.stage_of, strict=True):
        if stage in options.print_after and record.name == stage:
            print(f"# after {stage}\n{record.after}")
        for remark in record.remarks:
            if options.remarks in ("all", remark.kind):
                print(f"# {record.name}: {remark}")
    if options.output:
        write_file(options.output, f"{done.graph}\n")
    else:
        print(done.graph)
    if options.time:
        print(done.table().to_string(index=False), file=sys.stderr)


def _report(options: argparse.Namespace) -> None:
    from irscope.session import write_report

    program, examples = _named(options.file, options)
    _wrote(write_report(program, *examples, output=options.output, sources=options.sources, answers=options.answers, **_reading(options)))


def _diff(options: argparse.Namespace) -> int:
    from irscope import diff, fuse
    from irscope.display.diff_page import diff_html
    from irscope.display.html import plain_page
    from irscope.session import load, one_graph

    graphs = []
    for name in (options.first, options.second):
        program, examples = _named(name, options)
        graph = one_graph(load(program, *examples, **_reading(options)))
        graphs.append(fuse(graph) if options.fused else graph)
    found = diff(*graphs)
    print(found)
    print(f"# {', '.join(f'{count} {kind}' for kind, count in found.counts.items())}")
    if options.html:
        _wrote(write_file(options.html, plain_page(f"{options.first} and {options.second}", "diff", diff_html(found))))
    return 0 if found.is_empty else 1


def _decisions(options: argparse.Namespace) -> None:
    from irscope._base.tables import short
    from irscope.compilers import decisions
    from irscope.session import is_compiled, write_report

    program, examples = _named(options.source, options)
    names = [name.strip() for each in options.compiler for name in each.split(",")]
    if not names and not isinstance(program, str) and _is_torchs(program) and not is_compiled(program):
        names = ["inductor"]
    all_found = (decisions(program, *examples),) if not names else decisions(program, *examples, compiler=names)
    for found in all_found:
        if options.why_not:
            print(f"{found.compiler}: " * (len(names) > 1) + str(found.why_not(*options.why_not)))
            continue
        print(found)
        for each in found.breaks:
            print(f"graph break: {each}")
        for part in found.programs:
            print(f"\n{part.name}" if len(found.programs) > 1 else "")
            print(part.table().to_string(index=False, max_rows=200, float_format=short))
        for note in (*found.notes, *(note for part in found.programs for note in part.notes)):
            print(f"note: {note}")
    if options.html:
        _wrote(write_report(all_found, output=options.html))


def _wrote(page: Path) -> None:
    print(f"wrote {page} ({byte_count(page.stat().st_size)}); open it in any browser")


def _profile(options: argparse.Namespace) -> None:
    from irscope import load, profile
    from irscope._base.tables import short
    from irscope.display.text import profile_text
    from irscope.session import one_graph, write_report

    program, given = _named(options.source, options)
    if isinstance(program, str):
        program = one_graph(load(program, *given, **_reading(options)))
        given = given or _arguments_of(program)
    measured = profile(program, *given, seconds=options.seconds, device=options.device, threads=options.threads)
    print(profile_text(measured))
    if options.by:
        print(measured.table(options.by).to_string(index=False, max_rows=60, float_format=short))
    if options.html:
        _wrote(write_report(measured, output=options.html))
    if options.trace:
        print(f"wrote {measured.save(options.trace)}")
    if options.speedscope:
        measured.to_speedscope(options.speedscope)
        print(f"wrote {options.speedscope}")


def _arguments_of(graph: Any) -> list[Any]:
    """Random arguments of the types of a graph's inputs. Raises ArgumentError where those are not known."""
    types = [getattr(value.type, "is_static", False) and f"{value.type.dtype}{list(value.type.shape)}" for value in graph.free_inputs]
    unknown = [graph.names[value] for value, text in zip(graph.free_inputs, types, strict=True) if not text]
    if unknown:
        what = f"the types of {listed([f'%{name}' for name in unknown], most=6)} are not known"
        raise ArgumentError(what, hint=f"give one array type for each of the {plural(len(types), 'input')}: --args 'float32[4,8]' …")
    words = [str(text).replace(" ", "") for text in types]
    if words:
        print(f"random arguments: --args {' '.join(map(repr, words))}", file=sys.stderr)
    return [_example(text) for text in words]


def _survey(options: argparse.Namespace) -> int:
    from irscope import corpus

    memory = None if options.memory is None else int(options.memory * 1e9)
    try:
        found = corpus.survey(
            options.sources, options.scheduler, options.out, processes=options.processes, seconds=options.seconds, memory=memory,
            policy=options.policy, trust=options.trust, compiler=options.compiler,
        )  # fmt: skip
    except KeyboardInterrupt:
        print(f"irscope: interrupted; the results so far are in {options.out}, and the same command resumes from there", file=sys.stderr)
        return 130
    print(found)
    shown = found.classes.head(10)[["members", "models", "ops", "saved_s"]]
    print(shown.round(3).to_string(max_colwidth=60) if len(shown) else "no model has a fusion group")
    for model, what in found.failures[["model", "what"]].values.tolist():
        print(printable(f"left out: {model}: {what.partition(chr(10))[0]}"), file=sys.stderr)
    print(f"wrote {found.out}; open {found.out / 'index.html'} in any browser")
    return 0 if len(found.models) or not len(found.failures) else 1


def _is_torchs(program: Any) -> bool:
    """Check whether the module of a function, or of a model's class, names anything of torch."""
    home = getattr(program, "__globals__", None) or vars(sys.modules[type(program).__module__])
    names = [str(getattr(value, "__module__", None) or getattr(value, "__name__", "")) for value in home.values()]
    return any(name.partition(".")[0] == "torch" for name in names)


def _import_program(name: str) -> tuple[Any, list[Any]]:
    """Return what `module:function` names, and the example arguments that come with it. A class of models is called
    without arguments, and so is a function that needs none and returns a model: `net` returns `Net()`, or `(Net(), x)`.
    Raises ArgumentError."""
    place, _, attribute = name.rpartition(":")
    sys.path.insert(0, str(Path.cwd()))
    hint = "write module:function, with the module's folder as the current one, or file.py:function"
    if place.endswith(".py") and not Path(place).exists():
        raise ArgumentError(f"there is no file {place!r}", hint=hint)
    found: Any = None
    try:
        module = _module_of_file(place) if place.endswith(".py") else import_module(place)
        found = module
        for part in attribute.split("."):
            own = [each for each, value in vars(found).items() if getattr(value, "__module__", "") == module.__name__]
            hint = f"there is {listed(own, most=12)}" if own else hint
            found = getattr(found, part)
        made = found() if isinstance(found, type) else found
    except Exception as error:
        how = "built" if isinstance(found, type) else "imported"
        if found is None and not isinstance(error, ImportError):
            hint = f"{place} itself fails so: run it alone"
        elif how == "built":
            hint = "name a function that returns the model and its arguments: def net(): return Net(…), x"
        raise ArgumentError(f"{name!r} cannot be {how}: {type(error).__name__}: {error}", hint=hint) from None
    if not callable(made):
        raise ArgumentError(f"{name!r} cannot be called", hint="name a function, or a model")
    return _build_model(made)


def _build_model(found: Any) -> tuple[Any, list[Any]]:
    """Return the model, and its example arguments, of a function that needs no argument; any other program as it
    is."""
    if not isfunction(found) or any(each.default is each.empty for each in signature(found).parameters.values()):
        return found, []
    try:
        model, *args = made if isinstance(made := found(), tuple) and made else (made,)
    except Exception as error:
        what = f"{found.__name__}() raises {type(error).__name__}: {error}"
        raise ArgumentError(what, hint="it is called to see whether it returns a model, and its arguments") from None
    return (model, list(args)) if callable(model) else (found, [])


def _module_of_file(path: str) -> Any:
    spec = spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _cache(options: argparse.Namespace) -> None:
    from irscope.runtime.device import MissLog, user_stores

    stores = user_stores()
    for device in [options.device] if options.device else stores:
        store = stores[device]
        now = store.summary()
        if options.action == "clear":
            store.clear()
            print(f"{device}: {now.entries} kernels deleted, {byte_count(now.size_bytes)}, from {store.directory or 'nowhere'}")
            continue
        filled = f"{byte_count(now.size_bytes)} of {byte_count(now.limit_bytes)}"
        print(f"{device}: {now.entries} kernels, {filled}, in {now.directory or 'no folder'}")
        print(f"  loaded {now.hits} times, {now.misses} times not found, since it was last cleared")
        misses = MissLog(store).misses()
        if len(misses) > 5:
            print(f"  the last 5 of {len(misses)} that were compiled; irs.cache().table() has all:")
        for miss in misses[-5:]:
            print(f"  {miss.kernel} took {1e3 * miss.seconds:.0f} ms: {miss.differs}{f' ({miss.nearest})' * bool(miss.nearest)}")
        if now.trouble:
            print(f"  not used: {now.trouble}")


def _example(text: str) -> Any:
    """Return an array of a type such as `float32[1,3,8,8]`: random normal, or random integers below 100."""
    import numpy as np

    match = re.fullmatch(r"\s*(\w+)\s*\[([\d,\s]*)\]\s*", text)
    try:
        if match is None:
            raise ValueError
        dtype = np.dtype(match[1])
        shape = tuple(int(dim) for dim in match[2].split(",") if dim.strip())
        if dtype.kind not in "biuf":
            raise ValueError
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{_shorten(text)!r} is not an array type", hint="write it like float32[1,3,416,416], with NumPy's word for the element type"
        ) from None
    size = 8 * prod(shape)  # random numbers are drawn in 64 bits
    if len(shape) > _MOST_DIMENSIONS or size > machine_memory():
        needed = f"{len(shape)} dimensions" if len(shape) > _MOST_DIMENSIONS else f"{byte_count(size)} to generate"
        raise ArgumentError(f"--input {_shorten(text)}: such an array takes {needed}, more than is possible", hint="give a smaller one")
    random = np.random.default_rng(0)
    try:
        numbers = random.standard_normal(shape) if dtype.kind == "f" else random.integers(0, 2 if dtype.kind == "b" else 100, shape)
        array = numbers.astype(dtype)
    except (MemoryError, ValueError) as error:
        raise ArgumentError(f"--input {_shorten(text)}: {error}", hint="give a smaller one") from None
    torch = sys.modules.get("torch")
    return torch.from_numpy(array) if torch else array


_MOST_DIMENSIONS = 64  # NumPy's own limit.


def _shorten(text: str) -> str:
    return text if len(text) < 60 else f"{text[:60]}…"


def _lab(options: argparse.Namespace) -> int:
    if find_spec("jupyterlab") is None:
        raise MissingExtra("jupyterlab", extra="lab", purpose="to open notebooks")
    folder = _notebooks()
    given = options.given[options.given.index("lab") + 1 :]
    named = [each for each in given if each.endswith(".ipynb") and each[0] != "-"] or [each for each in given[:1] if each[:1] != "-"]
    name = named[0] if named else _TOUR
    notebook = folder / name
    if not notebook.is_file():
        known = ", ".join(sorted(path.name for path in folder.glob("*.ipynb")))
        raise ArgumentError(f"there is no notebook {name!r} in {folder}", hint=f"there are: {known}")
    root = folder.parent
    print(f"JupyterLab on {notebook.relative_to(root)}; stop it with Ctrl-C")
    place = f"--LabApp.default_url=/lab/tree/{notebook.relative_to(root).as_posix()}"
    # its addresses without fifteen lines before them, and the end at the first Ctrl-C
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}", place, "--log-level=WARN", "-y"]
    if getattr(os, "geteuid", lambda: 1)() == 0:
        command.append("--allow-root")  # JupyterLab refuses root otherwise, and many containers have no other user
    sys.stdout.flush()
    os.execv(sys.executable, [*command, *(each for each in given if each != name)])  # no process around it that a Ctrl-C ends first


def _notebooks() -> Path:
    """Return the folder of notebooks: the checkout's own, or a copy of the installed ones in the current folder."""
    package = Path(__file__).parent
    checkout = package.parent / "notebooks"
    if (checkout / _TOUR).exists():
        return checkout
    copy = Path.cwd() / "irscope-tour"
    for part in ("notebooks", "examples"):
        if not (copy / part).exists():  # never over what the user has changed
            shutil.copytree(package / "share" / part, copy / part)
    return copy / "notebooks"


if __name__ == "__main__":
    raise SystemExit(main())
