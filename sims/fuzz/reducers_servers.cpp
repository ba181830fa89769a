// Means in the order of the ranks: parameter servers, and shared memory's path by messages.
#include <fuzz/reducers.hpp>
#include <fuzz/trial.hpp>

#include <gx/parameter_server/reducer.hpp>  // ParameterServer
#include <gx/reducer/double_buffered.hpp>   // DoubleBuffered
#include <gx/shared_memory/reducer.hpp>     // SharedMemory

namespace gx::sim::fuzz {

namespace {

template <int Servers, class E>
struct WithServers : ParameterServer<E> {
    struct Options {};
    explicit WithServers(Options = {}) : ParameterServer<E>({.servers = Servers}) {}
};

}  // namespace

std::vector<FuzzedReducer> server_reducers() {
    return {{"ParameterServer<fp32>", trial<ParameterServer<fp32>>},
            {"ParameterServer<fp16>, 2 servers", trial<WithServers<2, fp16>>},
            {"DoubleBuffered<ParameterServer<bf16>>", trial<DoubleBuffered<ParameterServer<bf16>>>},
            {"SharedMemory<fp16>", trial<SharedMemory<fp16>>}};
}

}  // namespace gx::sim::fuzz
