// cuDNN Backend API, "Backend descriptor functions". Statuses are those of libcudnn 9.19 where the
// contract compares them; see ../contract.
#include <algorithm>  // copy_n, min
#include <cctype>     // isdigit
#include <cstdlib>    // atoi
#include <optional>   // members
#include <span>       // as_bytes

#include "attributes.hpp"
#include "library.hpp"

namespace gx::cuda_testing {

namespace {

cudnnStatus_t status_of_wrong_type(const AttributeRule& rule) {
    switch (rule.descriptor) {
        case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
        case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
        case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
        case CUDNN_BACKEND_RESAMPLE_DESCRIPTOR: return CUDNN_STATUS_BAD_PARAM;
        default: return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    }
}
/// Whether one element is got of it by a count of 1 alone.
bool is_scalar(const AttributeRule& rule) {
    switch (rule.descriptor) {
        case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
        case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
        case CUDNN_BACKEND_RESAMPLE_DESCRIPTOR: return rule.count_max == 1;
        default: return false;
    }
}
/// The windows of a resample may be set as integers; they are got as fractions.
bool is_whole_fraction(const AttributeRule& rule, cudnnBackendAttributeType_t type) {
    return rule.type == CUDNN_TYPE_FRACTION && type == CUDNN_TYPE_INT64;
}
AttributeValue as_fractions(std::int64_t count, const void* integers) {
    std::vector<cudnnFraction_t> all;
    for (std::int64_t i = 0; i < count; ++i)
        all.push_back({static_cast<const std::int64_t*>(integers)[i], 1});
    const auto bytes = std::as_bytes(std::span(all));
    return {.type = CUDNN_TYPE_FRACTION, .count = count, .bytes = {bytes.begin(), bytes.end()}};
}

/// Whether the library crashes or keeps what it cannot use: a misuse.
void check_part(CudnnLibrary& library, const AttributeRule& rule, cudnnBackendDescriptor_t part) {
    const Contents& given = *library.contents(part, rule.text);
    const bool fits = rule.name == CUDNN_ATTR_OPERATIONGRAPH_OPS ? is_operation(given.type)
                                                                 : given.type == rule.part;
    if (!fits)
        misuse(std::string(rule.text) + ": a " + name_of(given.type) + " where " +
               (rule.name == CUDNN_ATTR_OPERATIONGRAPH_OPS
                    ? "operations are"
                    : std::string(name_of(rule.part)) + " is") +
               " expected.");
}

cudnnStatus_t set(CudnnLibrary& library, Contents& to, const AttributeRule& rule,
                  cudnnBackendAttributeType_t type, std::int64_t count, const void* elements) {
    const std::string text = rule.text;
    if (!is_type_of(rule, type) && !is_whole_fraction(rule, type))
        return refuse(is_number(rule.type) ? CUDNN_STATUS_BAD_PARAM : status_of_wrong_type(rule),
                      text + ": attribute type " + std::to_string(type) + ", expected " +
                          std::to_string(rule.type) + ".");
    if (count > rule.count_max && rule.type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return refuse(CUDNN_STATUS_NOT_SUPPORTED, text + ": more than one descriptor.");
    if (count > rule.count_max && rule.count_max == CUDNN_DIM_MAX)
        misuse(text + ": " + std::to_string(count) + " elements, at most CUDNN_DIM_MAX expected.");
    if (count < 1 || count > rule.count_max || elements == nullptr)
        return refuse(CUDNN_STATUS_BAD_PARAM, text + ": " + std::to_string(count) + " elements" +
                                                  (elements == nullptr ? " at null" : "") +
                                                  ", expected 1 to " +
                                                  std::to_string(rule.count_max) + ".");
    if (is_whole_fraction(rule, type)) {
        to.values[rule.name] = as_fractions(count, elements);
        return CUDNN_STATUS_SUCCESS;
    }
    AttributeValue value{.type = type, .count = count};
    const auto bytes = static_cast<std::size_t>(count * element_bytes(type));
    const auto* const from = static_cast<const std::byte*>(elements);
    value.bytes.assign(from, from + bytes);
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        for (std::int64_t i = 0; i < count; ++i) {
            cudnnBackendDescriptor_t const part =
                static_cast<const cudnnBackendDescriptor_t*>(elements)[i];
            if (part == nullptr)
                return refuse(CUDNN_STATUS_BAD_PARAM, text + ": a null descriptor.");
            check_part(library, rule, part);
            const std::shared_ptr<Contents>& given = library.contents(part, text);
            const bool must_be_final = rule.name == CUDNN_ATTR_OPERATIONGRAPH_OPS;
            if (must_be_final && !given->finalized)
                return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                              text + ": operation " + std::to_string(i) +
                                  " is not finalized. Call cudnnBackendFinalize first.");
            value.parts.push_back(given->finalized ? given
                                                   : std::make_shared<const Contents>(*given));
        }
    }
    to.values[rule.name] = std::move(value);
    return CUDNN_STATUS_SUCCESS;
}

// ---- What can be got only -------------------------------------------------------------------

/// A number of the JSON of device properties; 0 where it has none.
int number_of(const Contents& properties, const std::string& name) {
    const std::vector<char> json = properties.all<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
    const std::string text(json.begin(), json.end());
    auto at = text.find("\"" + name + "\"");
    if (at == std::string::npos) return 0;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) == 0) ++at;
    return std::atoi(text.c_str() + at);
}
/// "deviceVer": 900 is sm 90.
int sm_of(const Contents& properties) { return number_of(properties, "deviceVer") / 10; }
int sm_for(const CudnnLibrary& library, const Contents& of, Attribute properties) {
    const Contents* const given = of.part(properties);
    return given != nullptr && sm_of(*given) > 0 ? sm_of(*given) : library.sm();
}
std::shared_ptr<const CudnnGraph> graph_in(const Contents& operation_graph, Refusal& refusal) {
    auto graph = std::make_shared<CudnnGraph>();
    refusal = make_graph(operation_graph.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).parts, *graph);
    return graph;
}
int device_of(const CudnnLibrary& library, const Contents& of, Attribute handle) {
    const auto given = of.one<cudnnHandle_t>(handle, nullptr);
    const auto at = library.handles.find(given);
    return at == library.handles.end() ? -1 : at->second->device;
}

std::vector<CudnnPlan> plans_for(const CudnnLibrary& library, const Contents& operation_graph,
                                 int sm) {
    Refusal refusal;
    const auto graph = graph_in(operation_graph, refusal);
    const std::string flaw = unsupported(*graph, sm);
    if (flaw == crash_of_resample) misuse(flaw + ": libcudnn 9.10 and 9.19 crash here.");
    if (!flaw.empty()) return {};
    std::vector<CudnnPlan> plans = engines_of(graph, sm);
    for (CudnnPlan& plan : plans)
        plan.device = device_of(library, operation_graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
    return plans;
}

AttributeValue list_of(std::vector<int> numbers, cudnnBackendAttributeType_t type) {
    AttributeValue value{.type = type, .count = static_cast<std::int64_t>(numbers.size())};
    const auto* const from = reinterpret_cast<const std::byte*>(numbers.data());
    value.bytes.assign(from, from + numbers.size() * sizeof(int));
    return value;
}
AttributeValue integer_of(std::int64_t number) {
    AttributeValue value{.type = CUDNN_TYPE_INT64, .count = 1};
    const auto* const from = reinterpret_cast<const std::byte*>(&number);
    value.bytes.assign(from, from + sizeof number);
    return value;
}

/// An engine with its notes. cuDNN Backend API, cudnnBackendNumericalNote_t.
std::shared_ptr<Contents> engine_contents(const CudnnPlan& plan, std::int64_t index) {
    auto engine = std::make_shared<Contents>();
    engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    engine->finalized = true;
    auto indexed = std::make_shared<CudnnPlan>(plan);
    indexed->index = index;
    engine->plan = std::move(indexed);
    std::vector<int> notes;
    bool halves = false;
    for (const auto& [uid, tensor] : plan.graph->tensors) halves = halves || is_half(tensor.type);
    if (plan.engine == CudnnEngine::tf32 || halves)
        notes.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    if (plan.engine == CudnnEngine::reduced)
        notes.push_back(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
    if (plan.engine == CudnnEngine::nondeterministic)
        notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    engine->values[CUDNN_ATTR_ENGINE_NUMERICAL_NOTE] = list_of(notes, CUDNN_TYPE_NUMERICAL_NOTE);
    engine->values[CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE] = list_of({}, CUDNN_TYPE_BEHAVIOR_NOTE);
    engine->values[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = integer_of(index);
    return engine;
}
std::shared_ptr<Contents> configuration_of(const std::shared_ptr<Contents>& engine) {
    auto configuration = std::make_shared<Contents>();
    configuration->type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
    configuration->finalized = true;
    configuration->plan = engine->plan;
    configuration->values[CUDNN_ATTR_ENGINECFG_ENGINE] = {
        .type = CUDNN_TYPE_BACKEND_DESCRIPTOR, .count = 1, .bytes = {}, .parts = {engine}};
    return configuration;
}

// ---- Finalizing what depends on the GPU -------------------------------------------------------

Refusal finalize_heuristics(CudnnLibrary& library, Contents& heuristics) {
    const Contents* const graph = heuristics.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    if (graph == nullptr || !graph->finalized)
        return {CUDNN_STATUS_BAD_PARAM, "engine heuristics without a finalized operation graph."};
    const int sm = sm_for(library, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
    AttributeValue results{.type = CUDNN_TYPE_BACKEND_DESCRIPTOR};
    for (std::int64_t index = 0; const CudnnPlan& plan : plans_for(library, *graph, sm))
        results.parts.push_back(configuration_of(engine_contents(plan, index++)));
    results.count = static_cast<std::int64_t>(results.parts.size());
    heuristics.values[CUDNN_ATTR_ENGINEHEUR_RESULTS] = std::move(results);
    return {};
}

Refusal finalize_engine(CudnnLibrary& library, Contents& engine) {
    const Contents* const graph = engine.part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
    if (graph == nullptr || !graph->finalized)
        return {CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "an engine without an operation graph."};
    const auto plans =
        plans_for(library, *graph, sm_for(library, engine, CUDNN_ATTR_ENGINE_DEVICEPROP));
    const std::int64_t index = engine.integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1);
    if (index < 0 || index >= static_cast<std::int64_t>(plans.size()))
        return {CUDNN_STATUS_NOT_SUPPORTED,
                "no engine " + std::to_string(index) + " takes this graph on this GPU."};
    const auto made = engine_contents(plans[static_cast<std::size_t>(index)], index);
    engine.plan = made->plan;
    for (const auto& [name, value] : made->values) engine.values[name] = value;
    return {};
}

// ---- Serialized plans -------------------------------------------------------------------------

/// What libcudnn compares before it takes a plan, as text.
std::string profile_of(const Contents& plan, int sm) {
    int driver = 0, processors = 0;
    if (const Contents* const p = plan.part(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP)) {
        driver = number_of(*p, "driverVer");
        processors = number_of(*p, "multiProcessorCount");
    } else {
        int device = 0;
        cudaGetDevice(&device);
        cudaDriverGetVersion(&driver);
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    }
    return "{\"multiProcessorCount\":" + std::to_string(processors) +
           ",\"deviceVer\":" + std::to_string(10 * sm) +
           ",\"driverVer\":" + std::to_string(driver) + "}";
}
// CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION: "the JSON representation of the serialized
// execution plan; serialization and deserialization can be done by getting and setting this
// attribute, respectively". Members are libcudnn's; the graph's text is the double's own.
std::string json_of(const CudnnPlan& plan, const std::string& profile) {
    return "{\"cudnnVersion\":" + std::to_string(cudnnGetVersion()) +
           ",\"schemaVersion\":4,\"operationGraph\":\"" + text_of(*plan.graph) +
           "\",\"GPUProfile\":" + profile +
           ",\"engine\":{\"engineId\":" + std::to_string(plan.index) + "}}";
}
AttributeValue text_value(const std::string& text) {
    AttributeValue value{.type = CUDNN_TYPE_CHAR, .count = std::ssize(text)};
    const auto* const from = reinterpret_cast<const std::byte*>(text.data());
    value.bytes.assign(from, from + text.size());
    return value;
}
/// What is between `name` and `end`; nothing where there is no such member.
std::optional<std::string> member(const std::string& json, const std::string& name,
                                  const char* end) {
    const auto at = json.find("\"" + name + "\":");
    if (at == std::string::npos) return std::nullopt;
    const auto begin = at + name.size() + 3, until = json.find_first_of(end, begin + 1);
    return json.substr(begin, until - begin);
}

/// Statuses as libcudnn 9.19 has them; the JSON of another GPU is refused, too.
Refusal deserialize(CudnnLibrary& library, const std::string& json, int sm,
                    const std::string& profile, CudnnPlan& plan) {
    if (!json.starts_with('{') || !json.ends_with("}}"))
        return {CUDNN_STATUS_BAD_PARAM, "the JSON is no object."};
    const auto version = member(json, "cudnnVersion", ",}"),
               schema = member(json, "schemaVersion", ",}"),
               graph_text = member(json, "operationGraph", "\""),
               of_gpu = member(json, "GPUProfile", "}"), engine = member(json, "engineId", ",}");
    if (!version || !schema || !graph_text || !of_gpu || !engine)
        return {CUDNN_STATUS_BAD_PARAM, "the JSON lacks a member."};
    if (*version != std::to_string(cudnnGetVersion()))
        return {CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH, "a plan of cuDNN " + *version + "."};
    if (*schema != "4")
        return {CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH, "a plan of schema " + *schema + "."};
    if (*of_gpu + "}" != profile)
        return {CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH, "a plan of a GPU " + *of_gpu + "}."};
    auto graph = std::make_shared<CudnnGraph>();
    const auto operations = operations_in(std::string_view(*graph_text).substr(1));
    if (operations.empty() || !make_graph(operations, *graph).sentence.empty() ||
        !unsupported(*graph, sm).empty())
        return {CUDNN_STATUS_BAD_PARAM, "the JSON has no operation graph."};
    const std::vector<CudnnPlan> plans = engines_of(graph, sm);
    const auto index = static_cast<std::size_t>(std::atoi(engine->c_str()));
    if (index >= plans.size() || std::to_string(index) != *engine)
        return {CUDNN_STATUS_NOT_SUPPORTED, "no engine " + *engine + " takes the graph."};
    plan = plans[index];
    plan.index = static_cast<std::int64_t>(index);
    ++library.counts.deserialized_plans;
    return {};
}

/// Gives a plan what can be got from it.
void complete_plan(CudnnLibrary& library, Contents& plan, CudnnPlan made, int sm) {
    const int device = device_of(library, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
    if (device >= 0) made.device = device;
    plan.values[CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE] = integer_of(made.workspace_bytes);
    plan.values[CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION] =
        text_value(json_of(made, profile_of(plan, sm)));
    plan.plan = std::make_shared<const CudnnPlan>(std::move(made));
}

Refusal finalize_serialized(CudnnLibrary& library, Contents& plan) {
    if (!plan.has(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) &&
        plan.part(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP) == nullptr)
        misuse(
            "CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION: neither a handle nor device "
            "properties; libcudnn crashes here.");
    const std::vector<char> json = plan.all<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
    const int sm = sm_for(library, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
    CudnnPlan made;
    if (Refusal r =
            deserialize(library, {json.begin(), json.end()}, sm, profile_of(plan, sm), made);
        r.status != CUDNN_STATUS_SUCCESS)
        return r;
    const auto configuration = configuration_of(engine_contents(made, made.index));
    plan.values[CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG] = {
        .type = CUDNN_TYPE_BACKEND_DESCRIPTOR, .count = 1, .bytes = {}, .parts = {configuration}};
    complete_plan(library, plan, std::move(made), sm);
    return {};
}

Refusal finalize_plan(CudnnLibrary& library, Contents& plan) {
    if (library.next_plan.fires()) return {library.next_plan.status, "an injected refusal."};
    if (plan.has(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION))
        return finalize_serialized(library, plan);
    const Contents* const configuration = plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (configuration == nullptr || !configuration->finalized)
        return {CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                "an execution plan without a finalized engine configuration."};
    complete_plan(library, plan, *configuration->plan,
                  sm_for(library, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP));
    ++library.counts.plans;
    return {};
}

Refusal finalize_graph(CudnnLibrary&, Contents& contents) {
    if (!contents.has(CUDNN_ATTR_OPERATIONGRAPH_OPS))
        return {CUDNN_STATUS_BAD_PARAM, "an operation graph of no operations."};
    Refusal refusal;
    const auto graph = graph_in(contents, refusal);
    return refusal;
}

Refusal finalize(CudnnLibrary& library, Contents& contents) {
    switch (contents.type) {
        case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return finalize_graph(library, contents);
        case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: return finalize_heuristics(library, contents);
        case CUDNN_BACKEND_ENGINE_DESCRIPTOR: return finalize_engine(library, contents);
        case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return finalize_plan(library, contents);
        case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: {
            const Contents* const engine = contents.part(CUDNN_ATTR_ENGINECFG_ENGINE);
            if (engine == nullptr || !engine->finalized)
                return {CUDNN_STATUS_SUCCESS,  // libcudnn crashes
                        "CUDNN_ATTR_ENGINECFG_ENGINE: no finalized engine."};
            contents.plan = engine->plan;
            return {};
        }
        default: return check_contents(contents);
    }
}

cudnnStatus_t get_parts(CudnnLibrary& library, const AttributeRule& rule,
                        const AttributeValue& value, std::int64_t count, void* elements) {
    for (std::int64_t i = 0; i < count; ++i) {
        auto* const into = static_cast<cudnnBackendDescriptor_t*>(elements)[i];
        if (into == nullptr)
            misuse(std::string(rule.text) + ": a null descriptor to fill. Create it first.");
        std::shared_ptr<Contents>& contents = library.contents(into, rule.text);
        check_part(library, rule, into);
        if (contents->finalized)
            misuse(std::string(rule.text) + ": a descriptor to fill that is finalized already.");
        contents = std::make_shared<Contents>(*value.parts[static_cast<std::size_t>(i)]);
    }
    return CUDNN_STATUS_SUCCESS;
}

}  // namespace

}  // namespace gx::cuda_testing

using namespace gx::cuda_testing;

cudnnStatus_t CUDNNWINAPI cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                       cudnnBackendDescriptor_t* descriptor) {
    return cudnn_call([&](CudnnLibrary& library) {
        if (descriptor == nullptr)
            misuse("cudnnBackendCreateDescriptor: a place for the descriptor is missing.");
        if (!is_descriptor_type(type))
            return refuse(
                CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
                "descriptor type " + std::to_string(type) + " is unknown, or not in this double.");
        if (library.next_allocation.fires())
            return refuse(library.next_allocation.status, "an injected failure.");
        auto contents = std::make_shared<Contents>();
        contents->type = type;
        // No address is given out twice.
        char* const made = &library.addresses.emplace_back();
        library.descriptors[made] = std::move(contents);
        *descriptor = made;
        return CUDNN_STATUS_SUCCESS;
    });
}

cudnnStatus_t CUDNNWINAPI cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    return cudnn_call([&](CudnnLibrary& library) {
        if (descriptor == nullptr)
            return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the descriptor is null.");
        (void)library.contents(descriptor, "cudnnBackendDestroyDescriptor");
        library.descriptors.erase(descriptor);
        library.ended.insert(descriptor);
        return CUDNN_STATUS_SUCCESS;
    });
}

// cudnnBackendInitialize(): "repurposes a pre-allocated memory": all that was set is gone.
cudnnStatus_t CUDNNWINAPI cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor) {
    return cudnn_call([&](CudnnLibrary& library) {
        if (descriptor == nullptr)
            return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the descriptor is null.");
        std::shared_ptr<Contents>& contents =
            library.contents(descriptor, "cudnnBackendInitialize");
        const cudnnBackendDescriptorType_t type = contents->type;
        contents = std::make_shared<Contents>();
        contents->type = type;
        return CUDNN_STATUS_SUCCESS;
    });
}

cudnnStatus_t CUDNNWINAPI cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    return cudnn_call([&](CudnnLibrary& library) {
        if (descriptor == nullptr)
            return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the descriptor is null.");
        Contents& contents = *library.contents(descriptor, "cudnnBackendFinalize");
        const std::string type = name_of(contents.type);
        if (contents.finalized)
            return refuse(CUDNN_STATUS_BAD_PARAM, type + ": it is finalized already.");
        Refusal refusal = finalize(library, contents);
        if (refusal.status == CUDNN_STATUS_SUCCESS && refusal.sentence.empty())
            if (const char* const missing =
                    missing_attribute(contents.type, [&](Attribute a) { return contents.has(a); }))
                refusal.sentence = std::string(missing) +
                                   " was never set; the manual requires it, and libcudnn takes a "
                                   "default of its own.";
        if (!refusal.sentence.empty()) {
            refusal.sentence = type + ": " + refusal.sentence;
            return refuse(refusal);
        }
        contents.finalized = true;
        return CUDNN_STATUS_SUCCESS;
    });
}

cudnnStatus_t CUDNNWINAPI cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                   cudnnBackendAttributeName_t name,
                                                   cudnnBackendAttributeType_t type, int64_t count,
                                                   const void* elements) {
    return cudnn_call([&](CudnnLibrary& library) {
        if (descriptor == nullptr)
            return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the descriptor is null.");
        Contents& contents = *library.contents(descriptor, "cudnnBackendSetAttribute");
        const AttributeRule* const rule = rule_of(contents.type, name);
        if (rule != nullptr && rule->need == Need::output)
            return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                          std::string(rule->text) + " can be got, and not be set.");
        if (rule == nullptr)
            return refuse(CUDNN_STATUS_BAD_PARAM, std::string(name_of(contents.type)) +
                                                      " has no attribute " + std::to_string(name) +
                                                      " in this double.");
        if (contents.finalized)
            return refuse(CUDNN_STATUS_BAD_PARAM,
                          std::string(rule->text) + " is set after cudnnBackendFinalize.");
        return set(library, contents, *rule, type, count, elements);
    });
}

cudnnStatus_t CUDNNWINAPI cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                                   cudnnBackendAttributeName_t name,
                                                   cudnnBackendAttributeType_t type,
                                                   int64_t requested, int64_t* count,
                                                   void* elements) {
    return cudnn_call([&](CudnnLibrary& library) {
        if (descriptor == nullptr)
            return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the descriptor is null.");
        const Contents& contents = *library.contents(descriptor, "cudnnBackendGetAttribute");
        const AttributeRule* const rule = rule_of(contents.type, name);
        if (!contents.finalized)
            return refuse(CUDNN_STATUS_NOT_INITIALIZED,
                          std::string(name_of(contents.type)) + " is not finalized.");
        if (contents.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && library.next_answer.fires())
            return refuse(library.next_answer.status, "an injected failure.");
        if (rule == nullptr)
            return refuse(CUDNN_STATUS_BAD_PARAM, std::string(name_of(contents.type)) +
                                                      " has no attribute " + std::to_string(name) +
                                                      " in this double.");
        if (contents.type == CUDNN_BACKEND_POINTWISE_DESCRIPTOR ||
            name == CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
            return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                          std::string(rule->text) + " can be set, and not be got.");
        if (!is_type_of(*rule, type) || name == CUDNN_ATTR_CONVOLUTION_CONV_MODE)
            return refuse(status_of_wrong_type(*rule),
                          std::string(rule->text) + ": a wrong attribute type.");
        if (elements != nullptr && (requested < 0 || (is_scalar(*rule) && requested != 1)))
            return refuse(CUDNN_STATUS_BAD_PARAM, std::string(rule->text) + ": a count of " +
                                                      std::to_string(requested) + ".");
        static const AttributeValue none{};
        const auto at = contents.values.find(name);
        const AttributeValue& value = at == contents.values.end() ? none : at->second;
        if (rule->type == CUDNN_TYPE_CHAR && elements != nullptr && requested < value.count)
            return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
                          std::string(rule->text) + ": " + std::to_string(requested) +
                              " characters of " + std::to_string(value.count) + ".");
        const std::int64_t given =
            elements == nullptr ? value.count : std::min(requested, value.count);
        if (count != nullptr) *count = given;
        if (elements == nullptr) return CUDNN_STATUS_SUCCESS;
        if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
            return get_parts(library, *rule, value, given, elements);
        std::copy_n(value.bytes.data(), given * element_bytes(rule->type),
                    static_cast<std::byte*>(elements));
        return CUDNN_STATUS_SUCCESS;
    });
}
