// The reducers of this plugin that the conformance kit proves.
#pragma once

#include <gx/testing/reducer_list.hpp>
#include <gx/trees/double_tree.hpp>
#include <gx/trees/tree.hpp>

using ReducersUnderTest =
    gx::testing::ReducerList<gx::Tree<gx::fp32>, gx::Tree<gx::fp16>, gx::DoubleTree<3, gx::fp32>,
                             gx::DoubleTree<2, gx::fp16>>;
