// The reducers of this plugin that the conformance kit proves.
#pragma once

#include <gx/parameter_server/reducer.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/testing/reducer_list.hpp>

/// `Servers` of the ranks serve.
template <int Servers, class E>
struct WithServers : gx::ParameterServer<E> {
    struct Options {};
    explicit WithServers(Options = {}) : gx::ParameterServer<E>({.servers = Servers}) {}
};

using ReducersUnderTest =
    gx::testing::ReducerList<gx::ParameterServer<gx::fp32>, gx::ParameterServer<gx::fp16>,
                             WithServers<1, gx::bf16>, WithServers<3, gx::fp32>,
                             gx::Bucketed<gx::ParameterServer<gx::fp16>, 512>>;
