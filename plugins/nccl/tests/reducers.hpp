// The reducers of this plugin that the conformance kit proves, where there is no NCCL.
#pragma once

#include <gx/nccl/all_reduce.hpp>
#include <gx/testing/reducer_list.hpp>

using ReducersUnderTest =
    gx::testing::ReducerList<gx::nccl::AllReduce<>, gx::nccl::AllReduce<gx::fp16>>;
