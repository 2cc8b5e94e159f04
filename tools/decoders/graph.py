"""One step of a Llama as an ONNX file: a token and its position in, the next token out, with a cache of a fixed number of rows.

The cache is the state of a sequence. So a daemon keeps it on the device, and makes one network for all steps.
"""

import onnx
from onnx import TensorProto, helper, numpy_helper
import numpy as np


class Sizes:
    """Sizes of a Llama, as transformers' configuration calls them, and the rows of its cache."""

    def __init__(self, config, rows):
        self.layers, self.width = config.num_hidden_layers, config.hidden_size
        self.heads, self.groups = config.num_attention_heads, config.num_key_value_heads
        self.head = self.width // self.heads
        self.vocabulary, self.epsilon, self.rows = config.vocab_size, config.rms_norm_eps, rows

    def rotations(self):
        """Cosines and sines of each position."""
        steps = 1 / 10000 ** (np.arange(0, self.head, 2, dtype=np.float64) / self.head)
        angles = np.outer(np.arange(self.rows), np.concatenate([steps, steps]))
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


class Writer:
    """Nodes and constants of a graph."""

    def __init__(self):
        self.nodes, self.stored = [], {}

    def constant(self, name, array):
        self.stored.setdefault(name, np.asarray(array))
        return name

    def of(self, op, *inputs, to=None, **attributes):
        to = to or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [to], name=to, **attributes))
        return to

    def shaped(self, x, *shape, to=None):
        shape = self.constant("shape_" + "_".join(map(str, shape)), np.array(shape, np.int64))
        return self.of("Reshape", x, shape, to=to)

    def product(self, x, name, weights):
        """A product with the weights of a linear layer."""
        return self.of("MatMul", x, self.constant(name, np.ascontiguousarray(weights[f"{name}.weight"].T)))


def step_file(sizes, weights):
    """The bytes of the file, for weights by transformers' names."""
    w, s = Writer(), sizes
    half, last = s.head // 2, w.constant("last", np.array([-1], np.int64))
    w.constant("cosines", s.rotations()[0]), w.constant("sines", s.rotations()[1])
    cosine, sine = (w.of("Gather", table, "position") for table in ("cosines", "sines"))
    columns = w.constant("columns", np.arange(s.rows, dtype=np.int64))
    is_seen = w.of("LessOrEqual", columns, "position")
    is_now = w.of("Equal", w.constant("places", np.arange(s.rows, dtype=np.int64).reshape(-1, 1)), "position")
    far, scale = w.constant("far", np.float32(-1e9)), w.constant("scale", np.float32(s.head**-0.5))
    epsilon = w.constant("epsilon", np.float32(s.epsilon))
    ends = [w.constant(name, np.array([at], np.int64)) for name, at in (("begin", 0), ("half", half), ("end", s.head))]

    def norm(x, name):
        mean = w.of("ReduceMean", w.of("Mul", x, x), last, keepdims=1)
        scaled = w.of("Div", x, w.of("Sqrt", w.of("Add", mean, epsilon)))
        return w.of("Mul", scaled, w.constant(name, weights[f"{name}.weight"]))

    def rotated(x):
        first, second = (w.of("Slice", x, ends[k], ends[k + 1], last) for k in (0, 1))
        turned = w.of("Concat", w.of("Neg", second), first, axis=-1)
        return w.of("Add", w.of("Mul", x, cosine), w.of("Mul", turned, sine))

    x = w.of("Gather", w.constant("embedding", weights["model.embed_tokens.weight"]), "ids")
    for k in range(s.layers):
        layer = f"model.layers.{k}"
        normed = norm(x, f"{layer}.input_layernorm")
        query, key, value = (w.product(normed, f"{layer}.self_attn.{name}_proj", weights) for name in "qkv")
        query = rotated(w.shaped(query, 1, s.groups, s.heads // s.groups, s.head))
        key = rotated(w.shaped(key, 1, s.groups, 1, s.head))
        value = w.shaped(value, 1, s.groups, 1, s.head)
        keys = w.of("Where", is_now, key, f"past_keys.{k}", to=f"keys.{k}")
        values = w.of("Where", is_now, value, f"past_values.{k}", to=f"values.{k}")
        scores = w.of("MatMul", query, w.of("Transpose", keys, perm=[0, 1, 3, 2]))
        scores = w.of("Where", is_seen, w.of("Mul", scores, scale), far)
        mixed = w.of("MatMul", w.of("Softmax", scores, axis=-1), values)
        x = w.of("Add", x, w.product(w.shaped(mixed, 1, s.width), f"{layer}.self_attn.o_proj", weights))
        normed = norm(x, f"{layer}.post_attention_layernorm")
        gate, up = (w.product(normed, f"{layer}.mlp.{name}_proj", weights) for name in ("gate", "up"))
        gated = w.of("Mul", w.of("Mul", gate, w.of("Sigmoid", gate)), up)
        x = w.of("Add", x, w.product(gated, f"{layer}.mlp.down_proj", weights))
    logits = w.product(norm(x, "model.norm"), "lm_head", weights)
    w.of("ArgMax", logits, to="token", axis=-1, keepdims=0)
    info, cache = helper.make_tensor_value_info, [1, s.groups, s.rows, s.head]
    of_caches = lambda past: [
        info(f"{past}{name}.{k}", TensorProto.FLOAT, cache) for k in range(s.layers) for name in ("keys", "values")
    ]
    ids = [info(name, TensorProto.INT64, [1]) for name in ("ids", "position", "token")]
    stored = [numpy_helper.from_array(array, name) for name, array in w.stored.items()]
    graph = helper.make_graph(w.nodes, "llama", ids[:2] + of_caches("past_"), ids[2:] + of_caches(""), stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def description(sizes):
    """The `model.toml` that keeps the cache on the device."""
    pairs = [f"{name}.{k}" for k in range(sizes.layers) for name in ("keys", "values")]
    return "".join(f'[[state]]\ninput = "past_{name}"\noutput = "{name}"\n' for name in pairs)
