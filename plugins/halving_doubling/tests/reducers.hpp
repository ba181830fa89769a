// The reducers of this plugin that the conformance kit proves.
#pragma once

#include <gx/halving_doubling/reducer.hpp>
#include <gx/testing/reducer_list.hpp>

using ReducersUnderTest =
    gx::testing::ReducerList<gx::HalvingDoubling<gx::fp32>, gx::HalvingDoubling<gx::fp16>>;
