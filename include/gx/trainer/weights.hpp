// Weights: a trained network's numbers, under torchvision's names in safetensors files.
#pragma once

#include <cstdint>     // int64_t
#include <filesystem>  // path
#include <map>         // metadata
#include <string>      // names
#include <vector>      // flat vectors

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

struct Graph;

/// Parameters and running statistics. Shapes: flat and canonical, as Graph lists them.
struct Weights {
    std::vector<float> parameters{}, statistics{};
    bool operator==(const Weights&) const = default;
};

/// Weights that a run starts from; in TrainerOptions::weights.
///
///     .weights = {.file = "resnet50.safetensors", .fresh = {"fc"}}    // of another class count
///     .weights = {.last_deviation = 0.01}                             // at random, but unsure
struct InitialWeights {
    std::filesystem::path file{};      ///< empty: none
    std::vector<std::string> fresh{};  ///< layers that are not read but start at random, by name
    bool whole_file = true;            ///< false: the network may be a part of that in the file
    /// Of the last linear layer's weights, where they start at random: 0.01 in Goyal et al. 2017,
    /// arXiv:1706.02677, section 5.1. Small ones give all classes nearly the same probability at
    /// first. 0: as all others, by fan_in (initial_parameter).
    double last_deviation = 0;
};

/// The shape of each parameter as PyTorch has it: (out, in / groups, height, width) of a
/// convolution's weight, (out, in) of a linear layer's, (channels) of all others.
GX_COLD [[nodiscard]] GX_DECL std::vector<std::vector<std::int64_t>> tensor_shapes(
    const Graph& graph);

/// The weights that a network of random numbers starts from. `last_deviation`: as InitialWeights'.
/// Errors: gx::Error for one that is negative or not finite, or of a network without linear layers.
[[nodiscard]] GX_DECL Weights initial_weights(const Graph& graph, std::uint64_t seed,
                                              double last_deviation = 0);

/// Reads a network's weights: a file of gx, or what Python's `safetensors.torch.save_file` wrote of
/// a torchvision model's `state_dict()`. All layers of `graph` but the fresh ones must be there
/// with their shapes, and nothing else; `num_batches_tracked`, the state of a checkpoint's run, and
/// Inception's second classifier are passed over. Fresh layers keep what `start` holds. Of a
/// checkpoint with an average of the weights (WeightAverage), that is read: what its run tested.
///
/// ResNet, ResNeXt, VGG, AlexNet and Inception-v3 have torchvision's names, layouts, padding and
/// batch norms, so that equal weights give equal logits. torchvision normalises images by the mean
/// (0.485, 0.456, 0.406) and the deviation (0.229, 0.224, 0.225), and its published Inception-v3 by
/// 0.5 and 0.5 (transform_input).
///
/// Errors: gx::Error naming the file and the first tensors that are missing, of another shape, or
///         not of the network; a value that is no finite number, or a variance below 0, with its
///         tensor and place; a fresh layer that the network has not; as read_safetensors.
GX_COLD [[nodiscard]] GX_DECL Weights read_weights(const InitialWeights& from, const Graph& graph,
                                                   Weights start);
/// All of them, from a file of this network.
GX_COLD [[nodiscard]] GX_DECL Weights read_weights(const std::filesystem::path& file,
                                                   const Graph& graph);

/// Writes what `read_weights` reads and `load_state_dict` takes.
/// Errors: as write_file.
GX_COLD GX_DECL void write_weights(const std::filesystem::path& file, const Graph& graph,
                                   const Weights& weights,
                                   const std::map<std::string, std::string>& metadata = {});

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/weights.ipp>
#endif
