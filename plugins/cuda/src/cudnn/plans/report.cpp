// Write which plans cuDNN has for the networks of questions.hpp, on a GPU that need not be there.
// Run:     gx_cuda_plans v100|h100
// Prints:  JSON, as reference/cudnn/<gpu>.json has it
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include <gx/core/error.hpp>
#include <gx/io/json_text.hpp>

#include "../../../testing/cudnn/contract/devices.hpp"
#include "dnn.hpp"
#include "fusions.hpp"
#include "questions.hpp"

namespace {

using namespace gx;
using namespace gx::cuda;

std::string version_text() {
    const std::size_t v = cudnnGetVersion();
    return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
           std::to_string(v % 100);
}

// ---- What is known of an engine -----------------------------------------------------------------

template <class Note>
bool has_note(const backend::Descriptor& engine, cudnnBackendAttributeName_t name,
              cudnnBackendAttributeType_t type, Note note) {
    std::array<Note, 64> notes{};
    std::int64_t count = 0;
    cudnnBackendGetAttribute(engine.handle(), name, type, std::ssize(notes), &count, notes.data());
    return std::ranges::find(notes.begin(), notes.begin() + count, note) != notes.begin() + count;
}

/// {"computes":"forward","engine":8,"tensor_core_note":true,"compiled":false,
///  "workspace_bytes":18944}
void write_plan(JsonWriter& w, std::string_view computes, void* configuration,
                std::int64_t workspace_bytes) {
    backend::Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    std::int64_t index = -1, count = 0;
    cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, engine.address());
    cudnnBackendGetAttribute(engine.handle(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                             &count, &index);
    w.open('{').field("computes", computes).field("engine", index);
    w.field("tensor_core_note",
            has_note(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                     CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    w.field("compiled", has_note(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                 CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION));
    w.field("workspace_bytes", workspace_bytes).close('}');
}

// ---- Questions ---------------------------------------------------------------------------------

/// The plans that cuda::Device runs for the layer.
void plan_layer(JsonWriter& w, const PlannedNetwork& n, const Op& op, const char* device) {
    cuda::Dnn dnn(std::string(device), {.compute = n.compute, .fp32_weight_gradients = false});
    const cuda::DnnLayer layer = dnn.layer(n.graph, op, n.batch, op.inputs[0] != 0);
    const auto write = [&](std::string_view computes, const cuda::DnnPlan* plan) {
        if (plan == nullptr) return;
        backend::Descriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        std::int64_t count = 0;
        cudnnBackendGetAttribute(plan->descriptor(), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, configuration.address());
        write_plan(w, computes, configuration.handle(), plan->workspace_bytes());
    };
    write("forward", layer.forward);
    write("input gradient", layer.input_gradient);
    write("weight gradient", layer.weight_gradient);
    write("bias gradient", layer.bias_gradient);
}

bool is_deterministic_sum(const backend::Descriptor& configuration) {
    for (const cudnnBackendNumericalNote_t note : backend::notes_of(configuration)) switch (note) {
            case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
            case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP: break;
            default: return false;
        }
    return true;
}

std::string last_refusal() {
    char text[512] = "";
    cudnnGetLastErrorString(text, sizeof text);
    return text;
}

/// The first plan of a fusion whose sums are in one order and of products as they are.
void plan_fusion(JsonWriter& w, const PlannedNetwork& n, const PlanQuestion& q,
                 const char* device_json) {
    const backend::Descriptor device = backend::device_properties(device_json);
    const backend::Graph fusion =
        cuda::fusion_graph(n.graph, n.graph.ops[q.op], n.batch, q.fusion, CUDNN_DATA_HALF);
    if (fusion.status() != CUDNN_STATUS_SUCCESS) throw Error("descriptors: " + last_refusal());
    backend::Descriptor graph = fusion.operation_graph();
    if (graph.finalize().status() != CUDNN_STATUS_SUCCESS)
        throw Error("the operation graph: " + last_refusal());
    int proposed = 0;
    std::string refusal;
    for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
        cudnnStatus_t status;
        const auto found = backend::configurations(graph, mode, &device, status);
        if (status != CUDNN_STATUS_SUCCESS) refusal = last_refusal();
        for (const backend::Descriptor& configuration : found) {
            ++proposed;
            if (!is_deterministic_sum(configuration)) continue;
            const backend::Descriptor plan = backend::plan(configuration, &device);
            if (plan.status() == CUDNN_STATUS_SUCCESS)
                return write_plan(w, to_string(q.fusion), configuration.handle(),
                                  backend::workspace_bytes(plan));
            refusal = last_refusal();
        }
    }
    throw Error(std::to_string(proposed) + " engines proposed" +
                (refusal.empty() ? "" : ", the last refusal: " + refusal));
}

// ---- A process for each question: heuristics of 9.10 may divide by zero without a device -------

/// What `write` wrote, or {"refused": why}, or {"ended by signal": n}.
std::string in_a_process(const std::function<void(JsonWriter&)>& write) {
    std::fflush(stdout);  // or the child has its copy
    int ends[2];
    if (::pipe(ends) != 0) throw Error("no pipe");
    const pid_t child = ::fork();
    if (child == 0) {
        ::close(ends[0]);
        JsonWriter w;
        std::string text;
        try {
            write(w.open('['));
            text = w.close(']').text();
        } catch (const std::exception& e) {
            text = JsonWriter{}.open('{').field("refused", e.what()).close('}').text();
        }
        for (std::size_t at = 0; at < text.size();) {
            const ssize_t n = ::write(ends[1], text.data() + at, text.size() - at);
            if (n <= 0) ::_exit(1);
            at += static_cast<std::size_t>(n);
        }
        ::_exit(0);
    }
    ::close(ends[1]);
    std::string text;
    char part[4096];
    for (ssize_t n; (n = ::read(ends[0], part, sizeof part)) > 0;)
        text.append(part, static_cast<std::size_t>(n));
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        return "{\"ended by signal\":" + std::to_string(WTERMSIG(status)) + "}";
    return text;
}

std::string answer(const PlannedNetwork& n, const PlanQuestion& q, const char* device) {
    return in_a_process([&](JsonWriter& w) {
        if (q.fusion == cuda::DnnFusion::none) plan_layer(w, n, n.graph.ops[q.op], device);
        else plan_fusion(w, n, q, device);
    });
}

void print_network(const PlannedNetwork& n, const char* device) {
    std::printf("  {\"network\": %s, \"batch\": %d, \"compute\": %s, \"plans\": [",
                json_quoted(n.graph.name.view()).c_str(), n.batch,
                json_quoted(to_string(n.compute)).c_str());
    const char* comma = "";
    for (const PlanQuestion& q : n.questions()) {
        JsonWriter layers;
        layers.open('[');
        for (const std::string& layer : q.layers) layers.value(layer);
        layers.close(']');
        std::printf("%s\n   {\"pattern\": %s, \"of\": %s,\n    \"layers\": %s,\n    \"plans\": %s}",
                    comma, json_quoted(to_string(q.fusion)).c_str(), json_quoted(q.text).c_str(),
                    layers.text().c_str(), answer(n, q, device).c_str());
        std::fflush(stdout);
        comma = ",";
    }
    std::printf("]}");
}

int usage(const char* text) {
    std::fprintf(stderr, "gx_cuda_plans: %s\n", text);
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view gpu = argc == 2 ? argv[1] : "";
    if (gpu != "v100" && gpu != "h100") return usage("which GPU: v100 or h100");
    const bool is_v100 = gpu == "v100";
    if (is_v100 && cudnnGetVersion() >= 91100)
        return usage(
            ("a V100 needs cuDNN 9.10 or older of CUDA 12, and this is cuDNN " + version_text())
                .c_str());
    const char* const device = is_v100 ? backend::v100_json : backend::h100_json;
    const auto networks = planned_networks();
    std::printf(
        "{\"gpu\": %s, \"compute_capability\": %s, \"cudnn\": %s,\n"
        " \"device_properties\": \"data sheet\", \"questions\": %s,\n \"networks\": [",
        is_v100 ? "\"V100\"" : "\"H100\"", is_v100 ? "\"7.0\"" : "\"9.0\"",
        json_quoted(version_text()).c_str(),
        json_quoted(hash_text(hash_of_questions(networks))).c_str());
    for (const PlannedNetwork& n : networks) {
        std::printf(&n == networks.data() ? "\n" : ",\n");
        print_network(n, device);
    }
    std::printf("]}\n");
}
