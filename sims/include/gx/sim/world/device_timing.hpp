// DeviceTiming: the virtual time of a simulated GPU, apart from the device that computes.
#pragma once

#include <array>    // two buffers
#include <cstddef>  // byte
#include <cstdint>  // int64_t
#include <span>     // flat vectors
#include <vector>   // watermarks

#include <gx/core/decl.hpp>                  // GX_HEADER_ONLY
#include <gx/core/device.hpp>                // DeviceOptions, GradientsReady
#include <gx/core/rng.hpp>                   // Rng: jitter
#include <gx/model/graph.hpp>                // Graph
#include <gx/sim/compute/jitter.hpp>         // Factor
#include <gx/sim/compute/roofline.hpp>       // TimedGraph
#include <gx/sim/world/cluster.hpp>          // RankBase
#include <gx/sim/world/copy_stream.hpp>      // CopyStream
#include <gx/sim/world/pass_workers.hpp>     // Pass
#include <gx/sim/world/watermark_check.hpp>  // WatermarkCheck

namespace gx::sim::detail {

/// What sim::Device<Inner> does beside Inner, whatever Inner is: it spends time, copies inputs,
/// checks watermarks and notes accesses for the race detector. Ordinary code, compiled once.
///
///     begin -> (await | reads -> forward | reads -> begin_backward -> reported* -> backward |
///               begin_update -> update)* -> end
class DeviceTiming {
public:
    using Rank = cluster::RankBase;

    /// Graph and batch that a device is timed as.
    struct Shape {
        const Graph& graph;
        int batch;
        bool other;  ///< not what is trained
    };
    /// Errors: gx::Error naming the phase that ClusterOptions does not say how to time.
    static Shape shape_of(const Graph& trained, const DeviceOptions& options, const Rank& rank);
    /// Errors: gx::Error as shape_of's, and for a timed batch that does not fit in the GPU.
    static void expect_fits(const Graph& trained, const DeviceOptions& options, Rank& rank);

    /// Errors: as expect_fits, and where the device computes in fp16 or bf16 and the cluster times
    ///         another precision.
    DeviceTiming(const Graph& graph, DeviceOptions options, Rank& rank);
    void begin(std::span<const float> parameters, std::span<const ParameterSlice> slices);
    void end(std::span<const float> parameters);

    void reads(std::span<const float> parameters, const char* pass);
    /// Waits for a batch; `pixels`: of 8 bits; else floats, which the host converts to the format
    /// that is computed in before it copies them.
    void await(int count, bool pixels);
    /// The same, where it has not been waited for, and computes.
    void forward(int count, bool pixels);
    void begin_backward(std::span<const float> gradients);
    void reported(std::size_t watermark) { watermarks_.reported(watermark); }
    /// Finishes `pass`, which computes the gradients, before it reports the first of them.
    void backward(Pass& pass, std::span<float> gradients, std::span<const ParameterSlice> slices,
                  GradientsReady ready);
    void begin_update(std::span<const float> parameters);
    void update();
    /// A sum of gradients of so many trained parameters, read twice and written; its nominal time.
    Nanoseconds add(std::size_t elements);
    /// Parameters come from other ranks, in no time.
    void receives(std::span<const float> parameters);

    [[nodiscard]] const Graph& graph() const { return timed_graph_; }
    [[nodiscard]] const TimedGraph& times() const { return times_; }
    [[nodiscard]] int timed_count(int count) const {
        const std::int64_t images = std::int64_t{count} * timed_batch_;
        return static_cast<int>((images + batch_ - 1) / batch_);
    }
    [[nodiscard]] Nanoseconds undisturbed_pass(int count) const;
    /// Of a rank that shares it with no other.
    [[nodiscard]] Nanoseconds undisturbed_update() const { return whole_update_; }

private:
    DeviceTiming(const Graph& graph, DeviceOptions options, Rank& rank, Shape timed);
    void note(Access access, std::span<const float> values, const Operation& operation);
    void note_input(Access access, int buffer, const Operation& operation);
    void wait_for_input();
    void copy_input();
    void begin_pass();
    void spend(std::size_t op, Nanoseconds time);

    Rank& rank_;
    Graph trained_graph_;
    WatermarkCheck watermarks_{};
    int batch_;
    Graph timed_graph_;
    int timed_batch_;
    bool timed_as_;  ///< another graph than the trained one
    TimedGraph times_;
    Nanoseconds whole_update_{};
    Rng jitter_;
    std::size_t parameters_ = 0;
    std::vector<std::size_t> ready_{};
    double slowness_ = 1.0;
    Factor variation_{};
    CopyStream<Rank> copies_;
    Copy copied_{};                      ///< of the next batch
    std::array<std::byte, 2> inputs_{};  ///< stand for two buffers of the GPU, a batch in each
    int input_ = 0;                      ///< the one that is computed on
    std::int64_t batches_ = -1;          ///< number of the batch in it
    int count_ = 0;
    bool pixels_ = false;   ///< the batch has bytes
    bool arrived_ = false;  ///< await() has waited for it
};

}  // namespace gx::sim::detail

#if defined(GX_HEADER_ONLY)
#include <gx/sim/world/impl/device_timing.ipp>
#endif
