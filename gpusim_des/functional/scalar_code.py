"""The interpreter's code: a thread kernel's source, with Python's own control flow, made to report what it does.

Every function becomes a generator, because a thread must be able to pause in the middle: at barriers, and where lanes
of a warp exchange values.
"""

from __future__ import annotations

import ast

from gpusim_des.functional.kernel_source import Compiled, Source, build
from gpusim_des.functional.rewrite import Rewriter
from gpusim_des.functional.rewritten import constant, runtime


def compile_scalar(source: Source, *, count_lines: bool) -> Compiled:
    """Compile a function for one thread at a time."""
    rewriter = ScalarRewriter(source, count_lines=count_lines)
    return build(source, rewriter.function(), rewriter.sites)


class ScalarRewriter(Rewriter):
    """Rewrites statements for one thread; places get the same numbers as in masked code."""

    def __init__(self, source: Source, *, count_lines: bool) -> None:
        super().__init__(source, count_lines=count_lines)
        self._inner = 0

    def function(self) -> ast.FunctionDef:
        """Return the rewritten function: a generator whose first parameter is the runtime."""
        node = self.source.node
        body = [*self.prologue(), *self.body(node.body)]
        # A generator even if nothing in it pauses.
        body.append(ast.If(constant(False), [ast.Expr(ast.Yield(None))], []))
        return self.definition(node, body)

    # Expressions ----------------------------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A call, which may pause the thread; inside of a lambda or a comprehension it may not."""
        done = self.call(node)
        if self._inner:
            assert isinstance(done.func, ast.Attribute)
            done.func.attr = "call_now"
            return done
        return ast.YieldFrom(done)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """``and`` and ``or`` as Python does them, told to the runtime."""
        operands: list[ast.expr] = [runtime("operand", self.truth(v)) for v in node.values]
        begun = ast.BoolOp(ast.Or(), [runtime("begin_logic"), ast.BoolOp(node.op, operands)])
        return runtime("end_logic", self.place(node), begun)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """``a if condition else b`` as Python does it, told to the runtime."""
        name, test = self.place(node), runtime("begin_select", self.truth(node.test))
        chosen = ast.IfExp(test, self.side(name, node.body), self.side(name, node.orelse))
        return runtime("end_select", self.place(node), chosen)

    def _visit_inner(self, node: ast.AST) -> ast.AST:
        self._inner += 1
        done = super().generic_visit(node)
        self._inner -= 1
        return done

    visit_Lambda = _visit_inner

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        """A local array."""
        made = self._visit_inner(node)
        assert isinstance(made, ast.expr)
        return runtime("local", self.place(node), made)

    visit_SetComp = _visit_inner
    visit_DictComp = _visit_inner
    visit_GeneratorExp = _visit_inner
    visit_FunctionDef = _visit_inner

    def visit_Yield(self, node: ast.Yield) -> ast.expr:
        """A barrier inside of an expression."""
        token = self.expression(node.value) if node.value is not None else constant(None)
        return ast.YieldFrom(runtime("pause", self.place(node), token))

    # Statements -----------------------------------------------------------------------------------------------------

    def visit_Expr(self, node: ast.Expr) -> list[ast.stmt]:
        """A call for its effect, a barrier, or a documentation string."""
        self.check_statement(node)
        if isinstance(node.value, ast.Constant):
            return []
        if self.is_breakpoint(node.value):
            stop = runtime("stop", self.place(node))
            return [ast.Expr(ast.Call(stop, [], []))]
        if isinstance(node.value, ast.Yield):
            value = node.value.value
            token = self.expression(value) if value is not None else constant(None)
            return [ast.Expr(ast.YieldFrom(runtime("pause", self.place(node), token)))]
        return [ast.Expr(self.expression(node.value))]

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        """A branch."""
        condition = self.expression(node.test)
        test = runtime("test", self.place(node), condition)
        return [ast.If(test, self.body(node.body), self.body(node.orelse) if node.orelse else [])]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        """A loop that tells its iterations."""
        place = self.place(node)
        line = [runtime("line", self.place(node))] if self.count_lines else []
        test = self.expression(node.test)
        tested = runtime("test", self.place(node), test)
        condition = ast.BoolOp(ast.And(), [runtime("loop_head"), *line, tested])
        loop = ast.While(condition, self.body(node.body), self.body(node.orelse) if node.orelse else [])
        return [ast.Expr(runtime("loop_enter", place)), loop, ast.Expr(runtime("loop_leave"))]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        """A loop that tells its iterations."""
        iterable = self.range_loop(node)
        kept = self.temporary()
        head = self.loop_head(node, kept)
        body = [*head, *self.body(node.body)]
        return [ast.For(ast.Name(kept, ast.Store()), iterable, body, self.body(node.orelse) if node.orelse else [])]

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        """Leave the function."""
        value = constant(None) if node.value is None else self.expression(node.value)
        return [ast.Return(runtime("returned", self.place(node), value))]
