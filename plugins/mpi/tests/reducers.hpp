// The reducers of this plugin, which gx_plugin() proves on threads and on a simulated cluster,
// where they are Ring. Over MPI: world_test.cpp.
#pragma once

#include <gx/mpi/all_reduce.hpp>
#include <gx/testing/reducer_list.hpp>

using ReducersUnderTest =
    gx::testing::ReducerList<gx::mpi::AllReduce<>, gx::mpi::AllReduce<gx::fp16>>;
