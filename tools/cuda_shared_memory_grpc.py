"""gRPC's calls for tools/cuda_shared_memory.py. They need grpcio alone: messages are written and read field by field, as
crates/reef-serve/proto/inference.proto numbers them."""

import grpc

SOON = 60  # seconds


def varint(number):
    made = b""
    while number > 127:
        made, number = made + bytes([number & 127 | 128]), number >> 7
    return made + bytes([number])


def message(*fields):
    """The bytes of a message: numbers of fields with numbers, texts or bytes."""
    made = b""
    for number, value in fields:
        if isinstance(value, int):
            made += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            made += varint(number << 3 | 2) + varint(len(data)) + data
    return made


def fields(data):
    """What `message` wrote: pairs of a field's number and a number or bytes."""
    at, made = 0, []

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        assert key & 7 in (0, 2), f"a field of kind {key & 7}"
        value = number()
        if key & 7 == 2:
            at, value = at + value, data[at:at + value]
        made.append((key >> 3, value))
    return made


def part(number, place, size):
    """Parameters, as field `number` of a tensor, that say in which region it is and where."""
    if place is None:
        return []
    region, offset = place
    said = [("shared_memory_region", (3, region)), ("shared_memory_offset", (2, offset)), ("shared_memory_byte_size", (2, size))]
    return [(number, message((1, key), (2, message(value)))) for key, value in said]


class Calls:
    """The calls of a daemon's Unix socket. A call that is refused raises grpc.RpcError."""

    def __init__(self, path):
        # Its own choice for a Unix socket has a character that HTTP/2 does not allow there.
        self.channel = grpc.insecure_channel(f"unix:{path}", options=[("grpc.default_authority", "localhost")])

    def call(self, method, *given):
        ask = self.channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
        return fields(ask(message(*given), timeout=SOON))

    def register(self, name, handle, size, device=0):
        self.call("CudaSharedMemoryRegister", (1, name), (2, handle), (3, device), (4, size))

    def unregister(self, name=""):
        self.call("CudaSharedMemoryUnregister", (1, name))

    def listed(self):
        """Names, devices and sizes of all regions."""
        regions = [dict(fields(dict(fields(entry))[2])) for _, entry in self.call("CudaSharedMemoryStatus")]
        return sorted((one[1].decode(), one.get(2, 0), one.get(3, 0)) for one in regions)

    def infer(self, model, shape, priority, data=None, source=None, to=None, sizes=(0, 0)):
        """The answer's bytes, none if they went to a region; `sizes` are those of input and output."""
        dims = b"".join(map(varint, shape))
        tensor = message((1, "input"), (2, "FP32"), (3, dims), *part(4, source, sizes[0]))
        output = message((1, "logits"), *part(2, to, sizes[1]))
        class_of = message((1, "priority"), (2, message((2, priority))))
        raw = [] if data is None else [(7, data)]
        answer = self.call("ModelInfer", (1, model), (4, class_of), (5, tensor), (6, output), *raw)
        return b"".join(value for number, value in answer if number == 6)


def refused(call):
    """The code's name and the text of a call that should fail; ("OK", "") if it didn't."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", ""
