// to_onnx: a trained network as an ONNX model.
#pragma once

#include <map>     // metadata
#include <span>    // flat vectors
#include <string>  // texts

#include <gx/core/decl.hpp>    // GX_DECL
#include <gx/model/graph.hpp>  // Graph

namespace gx::onnx {

/// Returns the bytes of a file: `graph` as it evaluates, from "images" (N, C, H, W), normalised
/// floats, to "logits" (N, classes), for any N. Batch norms use the running statistics; dropout and
/// loss are left out. Where a layer of vectors follows one of images without a Flatten, as behind
/// GlobalAvgPool, or the other way round, a node Flatten or Unsqueeze is put between.
///
///     const Weights w = read_weights("epoch-0090.safetensors", g);
///     write_file("net.onnx", gx::onnx::to_onnx(g, w.parameters, w.statistics));
///
/// Shapes: parameters and statistics flat and canonical, as Graph lists them. `metadata` becomes
///         the model's; the field "images" is to say how images were normalised, as to_json().
/// Errors: gx::Error for a network that is timed only, or of 2 GiB and more, which one file of
///         ONNX can't hold. Weights of another size break the contract.
/// Order:  equal networks and weights give equal bytes.
/// Cost:   twice the weights in memory.
/// Source: github.com/onnx/onnx, docs/Operators.md, opset 13.
[[nodiscard]] GX_DECL std::string to_onnx(const Graph& graph, std::span<const float> parameters,
                                          std::span<const float> statistics,
                                          const std::map<std::string, std::string>& metadata = {});

}  // namespace gx::onnx

#if defined(GX_HEADER_ONLY)
#include <gx/onnx/impl/export.ipp>
#endif
