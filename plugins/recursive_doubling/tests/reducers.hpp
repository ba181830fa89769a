// The reducers of this plugin that the conformance kit proves.
#pragma once

#include <gx/recursive_doubling/reducer.hpp>
#include <gx/testing/reducer_list.hpp>

using ReducersUnderTest =
    gx::testing::ReducerList<gx::RecursiveDoubling<gx::fp32>, gx::RecursiveDoubling<gx::fp16>>;
