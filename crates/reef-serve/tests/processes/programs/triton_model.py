"""A model as Triton's Python backend has it."""

import json
import os
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        y = pb_utils.get_output_config_by_name(config, "y")
        assert y["data_type"] == "TYPE_FP32" and y["dims"] == [2], y
        assert pb_utils.get_output_config_by_name(config, "z") is None
        assert not pb_utils.using_decoupled_model_transaction_policy(config)
        self.factor = float(config["parameters"]["factor"]["string_value"])
        self.version = args["model_version"]
        self.repository = args["model_repository"]

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy().tolist()
            if request.request_id() == "hold":
                open("held", "w").close()
                while not os.path.exists("go"):
                    time.sleep(0.001)
            factor = len(requests) if request.request_id() == "count" else self.factor
            if request.request_id() == "sequence":
                x, factor = [[request.correlation_id(), request.flags()]], 1.0
            if request.request_id() == "wrong":
                error = pb_utils.TritonError("not this one", pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse([], error))
            elif request.request_id() == "fails":
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("no luck")))
            elif request.request_id() != "none":
                y = pb_utils.Tensor("y", [[factor * value for value in row] for row in x])
                version = pb_utils.Tensor("version", [[self.version] for _ in x])
                responses.append(pb_utils.InferenceResponse([y, version]))
        return responses

    def finalize(self):
        open(os.path.join(self.repository, "finalized"), "w").close()
