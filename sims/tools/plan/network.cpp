#include <tools/plan/network.hpp>

#include <algorithm>  // min
#include <utility>    // move

#include <fmt/core.h>  // sentences

#include <gx/core/contract.hpp>               // GX_EXPECT
#include <gx/core/error.hpp>                  // Error
#include <gx/sim/compute/gpu_memory.hpp>      // expect_fits, largest_batch
#include <gx/sim/compute/roofline.hpp>        // TimedGraph
#include <gx/sim/compute/vector_kernels.hpp>  // VectorKernels
#include <gx/sim/timing/step_time.hpp>        // step_work

namespace gx::tools::plan {

Network::Network(MeasuredWork own) : own_(std::move(own)) {
    GX_EXPECT(own_.parts && own_.batch > 0, "a network of the user's own is a measured step's");
}

std::int64_t Network::parameters() const {
    return graph_ != nullptr ? graph_->parameter_elements() : own_.step.elements;
}

sim::StepWork Network::pass(int batch, const sim::GpuSpec& gpu, sim::Precision precision,
                            const sim::Framework& kernels, UpdateCost update) const {
    if (graph_ != nullptr)
        return step_work(*graph_, sim::TimedGraph(*graph_, gpu, precision, kernels, update), batch);
    const auto modelled = [&](int shards) {
        update.shards = shards;
        return update_time(parameters(), gpu, update);
    };
    sim::StepWork there;
    there.elements = parameters();
    const double times = static_cast<double>(batch) / own_.batch;
    there.forward = nanoseconds(seconds(own_.step.forward) * times);
    there.backward = nanoseconds(seconds(own_.step.backward) * times);
    there.update = modelled(update.shards);
    sim::StepWork here = own_.step;
    here.update = modelled(1);
    return scaled(own_, there, here);
}

int Network::largest_batch(int batch, const sim::GpuSpec& gpu, sim::Precision precision,
                           UpdateCost update) const {
    if (graph_ == nullptr) return std::min(batch, own_.batch);
    return sim::largest_batch(*graph_, batch, gpu, precision, update);
}

void Network::expect_fits(int batch, const sim::GpuSpec& gpu, sim::Precision precision,
                          UpdateCost update) const {
    if (graph_ != nullptr) return sim::expect_fits(*graph_, batch, gpu, precision, update);
    if (batch <= own_.batch) return;
    throw Error(
        fmt::format("a pass over {} examples was not measured, and may not fit in {}: up to {} do; "
                    "measure a larger --step-batch",
                    batch, gpu.name.view(), own_.batch));
}

}  // namespace gx::tools::plan
