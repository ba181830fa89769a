// Runs: the compositions that must train on GPUs as they do on threads, and their options.
#pragma once

#include <string>  // names

#include <gtest/gtest.h>  // Types

#include <gx/halving_doubling/reducer.hpp>
#include <gx/hierarchical/reducer.hpp>
#include <gx/local_sgd/reducer.hpp>
#include <gx/optimizer/adamw.hpp>
#include <gx/optimizer/lars.hpp>
#include <gx/parameter_server/reducer.hpp>
#include <gx/quantized/reducer.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/sharded/reducer.hpp>
#include <gx/shared_memory/reducer.hpp>
#include <gx/top_k/reducer.hpp>
#include <gx/trainer/trainer.hpp>
#include <gx/trees/double_tree.hpp>
#include <trainer/small.hpp>  // Net

namespace gx::cuda_tests {

using testing_support::Net;

/// A loss scale at which the first gradients overflow.
template <class O>
void overflow(O& o, bool half) {
    if constexpr (requires { o.initial; }) o.initial = o.largest = half ? 0x1p17f : 0x1p127f;
}

template <class T>
typename T::Options options_of_run() {
    typename T::Options o{.batch = 4, .epochs = 3, .seed = 3};
    overflow(o.loss_scale, T::name().find("fp16") != std::string::npos);
    return o;
}

template <class R, class... Policies>
using Run = Trainer<Net, R, Warmup<Poly<2>>, Policies...>;
using Runs = ::testing::Types<
    Run<Ring<fp32>>, Run<DoubleBuffered<MultiRing<2, fp16>>, DynamicLossScale>,
    Run<Bucketed<Ring<fp16>, 64>, AdamW>, Run<DoubleBuffered<Bucketed<Ring<bf16>, 128>>, Lars>,
    Run<TopK, DynamicLossScale>, Run<DoubleBuffered<Bucketed<TopK, 256>>>,
    Run<DoubleBuffered<Bucketed<Quantized<8>, 512>>, AdamW>, Run<Quantized<4>>,
    Run<Sharded<Ring<fp16>>, AdamW>, Run<Sharded<Ring<fp32>>, Lars>,
    Run<LocalSgd<Bucketed<Ring<fp32>, 256>, 3>, AdamW>, Run<Hierarchical<fp16>, Lars>,
    Run<DoubleTree<3, fp16>>, Run<HalvingDoubling<fp32>>, Run<ParameterServer<fp16>>,
    Run<SharedMemory<bf16>>>;

}  // namespace gx::cuda_tests
