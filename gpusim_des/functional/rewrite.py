"""Rewriting a kernel's source: expressions, the same for both ways of running it.

Every operator, subscript and call becomes a call of the runtime with the number of its place. Places are numbered in
the order of evaluation: for one thread, comparing numbers is comparing times.
"""

from __future__ import annotations

import ast
from typing import NoReturn

from gpusim_des.errors import KernelError
from gpusim_des.functional.cuda_operations import Special
from gpusim_des.functional.kernel_source import RUNTIME, LocalNames, NotVectorizable, Source
from gpusim_des.functional.rewritten import BINARY, COMPARE, UNARY, Done, Kept, constant, runtime
from gpusim_des.functional.source import Site


class Rewriter(ast.NodeTransformer):
    """Rewrites expressions; its subclasses rewrite statements, one for masked execution, one for single threads."""

    def __init__(self, source: Source, *, count_lines: bool) -> None:
        self.source = source
        self.count_lines = count_lines
        self.names = LocalNames(source.node)
        self.sites: list[Site] = []
        self.depth = -1
        """Loops and branches around the present statement."""
        self._temporaries = 0
        self._versions: dict[str, int] = {}

    def place(self, node: ast.AST) -> ast.Constant:
        """Number of the next place."""
        self.sites.append(self.source.site(node))
        return constant(len(self.sites) - 1)

    def temporary(self) -> str:
        """Return a new name that no kernel uses."""
        self._temporaries += 1
        return f"__t{self._temporaries}"

    def refuse(self, node: ast.AST, construct: str) -> NotVectorizable:
        """Signal that this construct is not for masked execution."""
        return NotVectorizable(construct, self.source.site(node))

    def expression(self, node: ast.expr) -> ast.expr:
        """Rewrite an expression."""
        done: ast.expr = self.visit(node)
        return ast.copy_location(done, node)

    # Names of numba.cuda --------------------------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """``cuda.threadIdx.x``, ``a.shape``: the runtime knows what they are, in kernels of this style."""
        if not self.source.is_cuda:
            self.generic_visit(node)
            return node
        owner = self.expression(node.value)
        return runtime("attribute", self.place(node), owner, constant(node.attr))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return a name; a global one may be ``threadIdx`` or ``laneid``, imported by itself."""
        is_local = node.id in self.names.counts or node.id in self.names.parameters
        if self.source.is_cuda and not is_local and isinstance(self.source.global_value(node.id), Special):
            return runtime("special", node)
        return node

    # Arithmetic -----------------------------------------------------------------------------------------------------

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """An operator, or a multiply-add that the compiler contracts (``x * y + z``)."""
        return self.binary(node, node.op, node.left, node.right)

    def binary(self, node: ast.AST, operator: ast.operator, left: ast.expr, right: ast.expr) -> ast.expr:
        """``left operator right``, contracted where a product is added or subtracted."""
        name = BINARY.get(type(operator))
        if name is None:
            raise KernelError(f"operator @ in {self.source.site(node)}: one thread multiplies numbers, not matrices")
        if name in {"add", "subtract"}:
            if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult):
                parts = [self.expression(left.left), self.expression(left.right), self.expression(right)]
                return runtime("multiply_add", self.place(node), constant(name), *parts)
            if isinstance(right, ast.BinOp) and isinstance(right.op, ast.Mult):
                parts = [self.expression(left), self.expression(right.left), self.expression(right.right)]
                return runtime("add_product", self.place(node), constant(name), *parts)
        a, b = self.expression(left), self.expression(right)
        return runtime("binary", self.place(node), constant(name), a, b)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """Sign, complement, negation."""
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return node
        operand = self.expression(node.operand)
        if isinstance(node.op, ast.UAdd):
            return operand
        if isinstance(node.op, ast.Not):
            return runtime("negation", self.place(node), operand)
        return runtime("unary", self.place(node), constant(UNARY[type(node.op)]), operand)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """A comparison; a chain becomes its parts joined by ``and``."""
        if len(node.ops) > 1:
            pairs: list[ast.expr] = []
            left = node.left
            for number, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
                is_middle = number < len(node.ops) - 1 and not isinstance(right, ast.Name | ast.Constant)
                kept = self.temporary() if is_middle else ""
                part = Kept(kept, right) if is_middle else right
                pairs.append(ast.copy_location(ast.Compare(left, [op], [part]), node))
                left = Kept(kept, None) if is_middle else right
            return self.expression(ast.copy_location(ast.BoolOp(ast.And(), pairs), node))
        a, b = self.expression(node.left), self.expression(node.comparators[0])
        name = COMPARE.get(type(node.ops[0]))
        if name is None:
            test = "contains" if isinstance(node.ops[0], ast.In | ast.NotIn) else "identical"
            found = runtime(test, self.place(node), a, b)
            negated = isinstance(node.ops[0], ast.NotIn | ast.IsNot)
            return runtime("negation", self.place(node), found) if negated else found
        return runtime("compare", self.place(node), constant(name), a, b)

    def truth(self, node: ast.expr) -> ast.expr:
        """An expression as a truth value."""
        value = self.expression(node)
        return runtime("truth", self.place(node), value)

    def side(self, name: ast.Constant, node: ast.expr) -> ast.expr:
        """One side of a conditional expression: both sides get one type, known by the number `name`."""
        value = self.expression(node)
        return runtime("side", self.place(node), name, value)

    # Memory and calls -----------------------------------------------------------------------------------------------

    def index(self, node: ast.expr) -> ast.expr:
        """Rewrite an index; slices become ``slice(...)``."""
        if isinstance(node, ast.Slice):
            parts = [
                self.expression(p) if p is not None else constant(None) for p in (node.lower, node.upper, node.step)
            ]
            return ast.Call(ast.Name("slice", ast.Load()), parts, [])
        if isinstance(node, ast.Tuple):
            return ast.Tuple([self.index(e) for e in node.elts], ast.Load())
        return self.expression(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """``array[index]`` read."""
        array, index = self.expression(node.value), self.index(node.slice)
        return runtime("get", self.place(node), array, index)

    def call(self, node: ast.Call) -> ast.Call:
        """``__r.call(place, function, …)``."""
        function = self.expression(node.func)
        arguments = [
            ast.Starred(self.expression(a.value), ast.Load()) if isinstance(a, ast.Starred) else self.expression(a)
            for a in node.args
        ]
        keywords = [ast.keyword(k.arg, self.expression(k.value)) for k in node.keywords]
        done = runtime("call", self.place(node), function, *arguments)
        done.keywords = keywords
        return done

    # Statements that both ways share --------------------------------------------------------------------------------

    def assign_name(self, node: ast.AST, name: str, value: ast.expr) -> ast.stmt:
        """``name = __r.assign(place, "name", name, value)``; ``let`` where a constant may stay one."""
        method = "let" if self.names.foldable(name) else "assign"
        old: ast.expr = ast.Name(name, ast.Load())
        slot = name
        if self.source.is_cuda and self.depth == 0:
            # As in Numba, a variable that all threads assign anew may have another type from here on.
            self._versions[name] = self._versions.get(name, 0) + 1
            old = ast.Attribute(ast.Name(RUNTIME, ast.Load()), "undefined", ast.Load())
        if self._versions.get(name, 0) > 1:
            slot = f"{name} {self._versions[name]}"
        return ast.Assign([ast.Name(name, ast.Store())], runtime(method, self.place(node), constant(slot), old, value))

    def assign(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """Assign a rewritten value to a target."""
        if isinstance(target, ast.Name):
            return [self.assign_name(target, target.id, value)]
        if isinstance(target, ast.Subscript):
            array, index = self.expression(target.value), self.index(target.slice)
            kept = self.temporary()
            return [
                ast.Assign([ast.Name(kept, ast.Store())], value),
                ast.Expr(runtime("set", self.place(target), array, index, ast.Name(kept, ast.Load()))),
            ]
        if isinstance(target, ast.Tuple | ast.List):
            kept_names = [self.temporary() for _ in target.elts]
            names: list[ast.expr] = [ast.Name(k, ast.Store()) for k in kept_names]
            done: list[ast.stmt] = [ast.Assign([ast.Tuple(names, ast.Store())], value)]
            for part, kept in zip(target.elts, kept_names, strict=True):
                done += self.assign(part, ast.Name(kept, ast.Load()))
            return done
        raise KernelError(
            f"assignment in {self.source.site(target)}: kernels assign to names and elements of arrays, nothing else"
        )

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        """``target = value``."""
        self.check_statement(node)
        value = self.expression(node.value)
        if len(node.targets) == 1:
            return self.assign(node.targets[0], value)
        kept = self.temporary()
        done: list[ast.stmt] = [ast.Assign([ast.Name(kept, ast.Store())], value)]
        for target in node.targets:
            done += self.assign(target, ast.Name(kept, ast.Load()))
        return done

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        """``target: type = value``."""
        self.check_statement(node)
        return [] if node.value is None else self.assign(node.target, self.expression(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        """``target op= value``: for an element a load and a store."""
        if isinstance(node.target, ast.Name):
            read: ast.expr = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
            return [self.assign_name(node, node.target.id, self.binary(node, node.op, read, node.value))]
        if not isinstance(node.target, ast.Subscript):
            return self.assign(node.target, constant(0))  # refuses
        array, index = self.temporary(), self.temporary()
        done: list[ast.stmt] = [
            ast.Assign([ast.Name(array, ast.Store())], self.expression(node.target.value)),
            ast.Assign([ast.Name(index, ast.Store())], self.index(node.target.slice)),
        ]
        where: list[ast.expr] = [ast.Name(array, ast.Load()), ast.Name(index, ast.Load())]
        old = self.temporary()
        done.append(ast.Assign([ast.Name(old, ast.Store())], runtime("get", self.place(node), *where)))
        value = self.binary(node, node.op, Done(ast.Name(old, ast.Load())), node.value)
        new = self.temporary()
        done.append(ast.Assign([ast.Name(new, ast.Store())], value))
        done.append(ast.Expr(runtime("set", self.place(node), *where, ast.Name(new, ast.Load()))))
        return done

    def visit_Kept(self, node: Kept) -> ast.expr:
        """The middle of a chained comparison: computed once, used twice."""
        if node.inner is None:
            return runtime("kept", constant(node.name))
        return runtime("keep", constant(node.name), self.expression(node.inner))

    def visit_List(self, node: ast.List) -> ast.expr:
        """A local array."""
        items: list[ast.expr] = [self.visit(e) for e in node.elts]
        return runtime("local", self.place(node), ast.List(items, ast.Load()))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        """``f"…"``: constant parts, and values with how they are converted and formatted."""
        parts: list[ast.expr] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                how = constant("") if part.format_spec is None else self.visit(part.format_spec)
                shown = [self.expression(part.value), constant(part.conversion), how]
                parts.append(ast.Tuple(shown, ast.Load()))
            else:
                parts.append(part)
        return runtime("text", self.place(node), *parts)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.expr:
        """``yield from helper(t)``: a helper that has barriers; every call can pause, so it is a call."""
        return self.expression(node.value)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> NoReturn:
        """Refuse: a kernel has no state but the device's."""
        raise KernelError(
            f"{self.source.node.name}: {self.source.site(node)} assigns to variables outside of the kernel: kernels "
            "write their results to device arrays"
        )

    visit_Nonlocal = visit_Global

    def visit_Done(self, node: Done) -> ast.expr:
        """An expression that is rewritten already."""
        return node.inner

    def loop_head(self, node: ast.For, item: str) -> list[ast.stmt]:
        """Assign the next item of a loop to its target.

        In Numba's style a variable that only the body uses needs no type of its own: it stays a constant where the
        loop is unrolled, so that indices of local arrays are constants, too.
        """
        value = ast.Name(item, ast.Load())
        if (
            self.source.is_cuda
            and isinstance(node.target, ast.Name)
            and self.names.belongs_to(node.target.id, node.body)
        ):
            return [ast.Assign([ast.Name(node.target.id, ast.Store())], value)]
        return self.assign(node.target, value)

    def range_loop(self, node: ast.For) -> ast.expr:
        """The iterable of a for loop: a range that the runtime counts, or anything that Python can iterate."""
        call = node.iter
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
            and not call.keywords
        ):
            locals_ = set(self.names.counts) | set(self.names.parameters)
            used = {n.id for a in call.args for n in ast.walk(a) if isinstance(n, ast.Name)}
            bounds = [self.expression(a) for a in call.args]
            return runtime("range", self.place(node), constant(not used & locals_), *bounds)
        iterable = self.expression(call)
        return runtime("each", self.place(node), iterable)

    def prologue(self) -> list[ast.stmt]:
        """Names that are not assigned yet, and parameters that change, which are variables with a type."""
        undefined = ast.Attribute(ast.Name(RUNTIME, ast.Load()), "undefined", ast.Load())
        done: list[ast.stmt] = []
        if locals_ := [n for n in self.names.counts if n not in self.names.parameters]:
            done.append(ast.Assign([ast.Name(n, ast.Store()) for n in locals_], undefined))
        for name in self.names.parameters:
            if name in self.names.counts:
                self._versions[name] = 1
                value = runtime(
                    "assign", self.place(self.source.node), constant(name), undefined, ast.Name(name, ast.Load())
                )
                done.append(ast.Assign([ast.Name(name, ast.Store())], value))
        return done

    def body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Rewrite statements, each preceded by its count where lines are counted; none become ``pass``."""
        done: list[ast.stmt] = []
        self.depth += 1
        for statement in statements:
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if self.count_lines and not isinstance(statement, ast.For | ast.While) and not is_text:
                done.append(ast.copy_location(ast.Expr(runtime("line", self.place(statement))), statement))
            result = self.visit(statement)
            for new in result if isinstance(result, list) else [result]:
                ast.copy_location(new, statement)
                done.append(new)
        self.depth -= 1
        return done or [ast.Pass()]

    def definition(self, node: ast.FunctionDef, body: list[ast.stmt]) -> ast.FunctionDef:
        """Function with the parameters of `node`, the runtime before them, and a rewritten body.

        Defaults are left out: the runtime fills them in before it calls.
        """
        given = node.args
        arguments = ast.arguments(
            posonlyargs=[],
            args=[ast.arg(RUNTIME), *(ast.arg(a.arg) for a in (*given.posonlyargs, *given.args))],
            vararg=ast.arg(given.vararg.arg) if given.vararg else None,
            kwonlyargs=[ast.arg(a.arg) for a in given.kwonlyargs],
            kw_defaults=[None for _ in given.kwonlyargs],
            kwarg=ast.arg(given.kwarg.arg) if given.kwarg else None,
            defaults=[],
        )
        done = ast.FunctionDef(name=node.name, args=arguments, body=body, decorator_list=[])
        if hasattr(done, "type_params"):  # Python 3.12 and later want the list
            done.type_params = []
        return ast.copy_location(done, node)

    def is_breakpoint(self, node: ast.expr) -> bool:
        """Tell whether this is ``breakpoint()``, Python's own, or ``pdb.set_trace()``."""
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Attribute):
            return node.func.attr == "set_trace"
        return isinstance(node.func, ast.Name) and node.func.id == "breakpoint" and not self.is_known("breakpoint")

    def is_known(self, name: str) -> bool:
        """Tell whether a name is a variable of the kernel or of its module, and not Python's own."""
        mine = name in self.names.counts or name in self.names.parameters
        return mine or self.source.global_value(name) is not None

    def check_statement(self, node: ast.Expr | ast.Assign | ast.AnnAssign) -> None:
        """Refuse a barrier that is called but not yielded."""
        call = node.value
        if self.source.is_cuda:
            return
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "syncthreads":
            raise KernelError(
                f"{self.source.node.name}: barrier in {self.source.site(node)} has no effect: "
                "write `yield t.syncthreads()`"
            )
