// cudnnBackendExecute: checks a plan and its pointers, and queues the work on the handle's stream.
#include <utility>  // pair

#include "library.hpp"

namespace gx::cuda_testing {

namespace {

struct Bytes {
    const std::byte* begin = nullptr;
    std::int64_t count = 0;
    std::string name{};
    bool writes = false;

    [[nodiscard]] bool overlaps(const Bytes& other) const {
        return begin < other.begin + other.count && other.begin < begin + count;
    }
};

std::string name_of(const TensorInfo& t) {
    return "the tensor of unique id " + std::to_string(t.uid);
}

/// What an execution uses, each range of bytes once checked.
struct Arguments {
    std::map<std::int64_t, void*> pointers{};
    std::map<std::int64_t, float> by_value{};
    void* workspace = nullptr;
};

/// No result shares bytes with anything else; running statistics may be updated in place.
void check_overlaps(const std::vector<Bytes>& all, const CudnnGraph& graph) {
    for (std::size_t i = 0; i < all.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
            if (!(all[i].writes || all[j].writes) || !all[i].overlaps(all[j])) continue;
            const bool in_place = all[i].begin == all[j].begin && all[i].count == all[j].count;
            const bool is_norm =
                graph.operations[0]->type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR ||
                graph.operations[0]->type ==
                    CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR;
            if (in_place && is_norm && all[i].writes != all[j].writes) continue;
            misuse("cudnnBackendExecute: " + all[i].name + " overlaps " + all[j].name + ".");
        }
}

Arguments check_arguments(const CudnnPlan& plan, const Contents& pack) {
    Arguments arguments;
    const auto uids = pack.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (std::size_t i = 0; i < uids.size(); ++i) {
        const auto at = plan.graph->tensors.find(uids[i]);
        if (at == plan.graph->tensors.end() || at->second.is_virtual)
            misuse("cudnnBackendExecute: unique id " + std::to_string(uids[i]) +
                   " of the variant pack is of no tensor of the graph in memory.");
        if (pointers[i] == nullptr)
            misuse("cudnnBackendExecute: a null pointer for " + name_of(at->second) + ".");
        arguments.pointers[uids[i]] = pointers[i];
    }
    std::vector<Bytes> all;
    for (const bool writes : {false, true})
        for (const std::int64_t uid : writes ? plan.graph->outputs : plan.graph->inputs) {
            const TensorInfo& t = plan.graph->tensors.at(uid);
            const auto at = arguments.pointers.find(uid);
            if (at == arguments.pointers.end())
                misuse("cudnnBackendExecute: no pointer for " + name_of(t) +
                       " in the variant pack.");
            if (t.by_value) {
                arguments.by_value[uid] = load(static_cast<const std::byte*>(at->second), t.type);
                continue;
            }
            if (reinterpret_cast<std::uintptr_t>(at->second) %
                    static_cast<std::uintptr_t>(t.alignment) !=
                0)
                misuse("cudnnBackendExecute: " + name_of(t) + " is not aligned to " +
                       std::to_string(t.alignment) + " bytes, as its descriptor says.");
            all.push_back(
                {static_cast<const std::byte*>(at->second), t.bytes(), name_of(t), writes});
        }
    arguments.workspace = pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
    if (plan.workspace_bytes > 0) {
        if (arguments.workspace == nullptr)
            misuse("cudnnBackendExecute: no workspace, and the plan needs " +
                   std::to_string(plan.workspace_bytes) + " bytes.");
        all.push_back({static_cast<const std::byte*>(arguments.workspace), plan.workspace_bytes,
                       "the workspace", true});
    }
    check_overlaps(all, *plan.graph);
    return arguments;
}

void expect_device(const cudnnContext& context, const CudnnPlan& plan) {
    int current = -1;
    if (cudaGetDevice(&current) != cudaSuccess) return;  // the launch fails
    if (current != context.device)
        misuse("cudnnBackendExecute: the handle is of device " + std::to_string(context.device) +
               ", and device " + std::to_string(current) + " is current. Call cudaSetDevice.");
    if (plan.device >= 0 && plan.device != context.device)
        misuse("cudnnBackendExecute: the plan was made with a handle of device " +
               std::to_string(plan.device) + ", and this handle is of device " +
               std::to_string(context.device) + ".");
}

cudnnStatus_t execute(CudnnLibrary& library, const cudnnContext& context,
                      std::shared_ptr<const CudnnPlan> plan, Arguments arguments) {
    const std::string name = "cuDNN " + pattern_of(*plan->graph);
    const bool random = plan->engine == CudnnEngine::nondeterministic;
    const bool reversed = random && (library.draws++ & 1u) != 0;
    const cudaError_t queued = enqueue_kernel(
        context.stream, name.c_str(), [plan, arguments = std::move(arguments), reversed] {
            compute(*plan, arguments.pointers, arguments.by_value, arguments.workspace, reversed);
        });
    if (queued != cudaSuccess)
        return refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART,
                      name + ": " + cudaGetErrorName(queued) + ".");
    ++library.counts.executions;
    if (random) ++library.counts.nondeterministic_executions;
    if (plan->engine == CudnnEngine::tf32) ++library.counts.tf32_executions;
    return CUDNN_STATUS_SUCCESS;
}

}  // namespace

}  // namespace gx::cuda_testing

using namespace gx::cuda_testing;

// cudnnBackendExecute(): "executes the given engine configuration plan on the variant pack",
// asynchronously to the host, on the handle's stream.
cudnnStatus_t CUDNNWINAPI cudnnBackendExecute(cudnnHandle_t handle,
                                              cudnnBackendDescriptor_t execution_plan,
                                              cudnnBackendDescriptor_t variant_pack) {
    if (handle == nullptr)
        return refuse(CUDNN_STATUS_BAD_PARAM, "cudnnBackendExecute: the handle is null.");
    return cudnn_call([&](CudnnLibrary& library) {
        const cudnnContext& context = library.context(handle, "cudnnBackendExecute");
        const Contents& plan = *library.contents(execution_plan, "cudnnBackendExecute: the plan");
        const Contents& pack = *library.contents(variant_pack, "cudnnBackendExecute: the pack");
        if (plan.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
            pack.type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
            misuse("cudnnBackendExecute: descriptors of other types than a plan and a pack.");
        if (!plan.finalized || !pack.finalized)
            misuse("cudnnBackendExecute: the plan or the variant pack is not finalized.");
        if (library.next_execution.fires())
            return refuse(library.next_execution.status, "an injected failure.");
        expect_device(context, *plan.plan);
        return execute(library, context, plan.plan, check_arguments(*plan.plan, pack));
    });
}
