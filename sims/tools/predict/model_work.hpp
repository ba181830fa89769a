// ModelWork: a network's shape in time: when gradients are ready, and what a batch costs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gx/model/graph.hpp>           // Graph
#include <gx/sim/hardware/gpu.hpp>      // GpuSpec, Precision
#include <gx/sim/compute/roofline.hpp>  // TimedGraph

namespace gx::tools::predict {

/// From the graph where the model is known; else gradients come evenly and time goes by batch.
struct ModelWork {
    struct Ready {
        double backward = 0, bytes = 0;  ///< shares of the whole, both growing
    };
    std::string name{};              ///< of the graph; empty: none known
    std::string taken_for{};         ///< known name whose size is a guess for this one
    bool family = false;             ///< that is a known name, of networks of several sizes
    double forward_share = 1.0 / 3;  ///< of a step's computation
    double largest_tensor = 0.05;    ///< share of the gradient
    double gradient_mb_fp32 = 0;
    double flops = 0;  ///< of a sample, forward and backward
    std::vector<Ready> ready{{1, 1}};
    std::shared_ptr<const Graph> graph{};
    /// On its GPU. Launches do not count: the host queues kernels ahead of those that run. (Fitted
    /// as a share of them, none was left.)
    std::shared_ptr<const sim::TimedGraph> timed{};

    /// The share of the gradient's bytes that is final after such a share of backward.
    [[nodiscard]] double bytes_at(double backward) const;
    /// The share of backward after which so many bytes are final.
    [[nodiscard]] double backward_at(double bytes) const;
    /// Time at one batch over time at another.
    [[nodiscard]] double time_ratio(double batch, double base) const;
};

/// The work of a model by name; `batch` sets how forward and backward compare.
[[nodiscard]] ModelWork model_work(const std::string& model, const sim::GpuSpec& gpu,
                                   sim::Precision precision, double batch);

/// The one graph's name nearest to a misspelt one, in letters opening with `family`. Empty: several
/// are as near, or none, or a profile is nearer, whose name is in no usual spelling.
[[nodiscard]] std::string nearest_model(const std::string& model, const std::string& family = "");

/// Whether a name in lower case is that of a language model.
[[nodiscard]] bool is_language_model(const std::string& model);

}  // namespace gx::tools::predict
