// The attributes of each descriptor, as NVIDIA's cuDNN Backend API manual lists them.
#pragma once

#include <cudnn.h>

#include <cstdint>  // int64_t

namespace gx::cuda_testing {

enum class Need : unsigned char {
    optional,
    required,  ///< by the manual; where the library has a default of its own, the double stops
    output     ///< to get, and not to set
};

struct AttributeRule {
    cudnnBackendDescriptorType_t descriptor;
    cudnnBackendAttributeName_t name;
    const char* text;
    cudnnBackendAttributeType_t type;
    std::int64_t count_max = 1;
    Need need = Need::optional;
    /// Of descriptors: the type that is expected.
    cudnnBackendDescriptorType_t part = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
};

[[nodiscard]] std::int64_t element_bytes(cudnnBackendAttributeType_t type);
[[nodiscard]] inline bool is_number(cudnnBackendAttributeType_t type) {
    return type == CUDNN_TYPE_FLOAT || type == CUDNN_TYPE_DOUBLE;
}
/// Whether values of the type are kept as the attribute's.
[[nodiscard]] inline bool is_type_of(const AttributeRule& rule, cudnnBackendAttributeType_t type) {
    return type == rule.type || (is_number(rule.type) && is_number(type));
}
/// nullptr where the descriptor has no such attribute.
[[nodiscard]] const AttributeRule* rule_of(cudnnBackendDescriptorType_t descriptor,
                                           cudnnBackendAttributeName_t name);
/// The name of the first required attribute that `has` denies; nullptr if there is none.
template <class Has>
const char* missing_attribute(cudnnBackendDescriptorType_t descriptor, Has has);
/// The rules of all descriptors, in the order of the header.
struct AttributeRules {
    const AttributeRule *first, *last;
    [[nodiscard]] const AttributeRule* begin() const { return first; }
    [[nodiscard]] const AttributeRule* end() const { return last; }
};
[[nodiscard]] AttributeRules attribute_rules();
/// Whether the double has descriptors of the type.
[[nodiscard]] bool is_descriptor_type(cudnnBackendDescriptorType_t type);
[[nodiscard]] const char* name_of(cudnnBackendDescriptorType_t type);

template <class Has>
const char* missing_attribute(cudnnBackendDescriptorType_t descriptor, Has has) {
    for (const AttributeRule& rule : attribute_rules())
        if (rule.descriptor == descriptor && rule.need == Need::required && !has(rule.name))
            return rule.text;
    return nullptr;
}

}  // namespace gx::cuda_testing
