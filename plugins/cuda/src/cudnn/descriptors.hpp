// DnnGraph: operations and tensors of the backend API, built call by call.
#pragma once

#include <string>  // what is described
#include <vector>  // descriptors

#include "dnn.hpp"

namespace gx::cuda::detail {

/// Throws gx::Error unless the status is success: "cuDNN 9.19.0: `call`: CUDNN_STATUS_...".
void expect(cudnnStatus_t status, const std::string& call);
/// Text of the last refusal of this thread.
[[nodiscard]] std::string last_refusal(cudnnStatus_t status);
[[nodiscard]] std::string dnn_version();

[[nodiscard]] DnnDescriptor make_descriptor(cudnnBackendDescriptorType_t type);
/// Sets an attribute of one element, or of some.
template <class T>
void set(const DnnDescriptor& d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         const std::vector<T>& elements) {
    expect(cudnnBackendSetAttribute(d.get(), name, type, static_cast<std::int64_t>(elements.size()),
                                    elements.data()),
           "cudnnBackendSetAttribute");
}
template <class T>
void set(const DnnDescriptor& d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         const T& element) {
    expect(cudnnBackendSetAttribute(d.get(), name, type, 1, &element), "cudnnBackendSetAttribute");
}
void set_part(const DnnDescriptor& d, cudnnBackendAttributeName_t name, const void* part);
void finalize(const DnnDescriptor& d, const std::string& what);
/// No-op without a handle.
void set_plan_handle(const DnnDescriptor& plan, cudnnHandle_t handle);

/// Dimensions of a tensor: (N, C, H, W), in memory (N, H, W, C).
struct DnnShape {
    std::int64_t n = 1, c = 1, h = 1, w = 1;
    [[nodiscard]] std::string text() const;
};

class DnnGraph {
public:
    /// Tensors in memory get the unique ids 1, 2, 3 ... in this order: that of run()'s pointers.
    void* tensor(const DnnShape& shape, cudnnDataType_t type);
    void* virtual_tensor(const DnnShape& shape);  ///< in fp32

    struct Padding {
        std::int64_t height = 0, width = 0;
    };
    struct Convolution {
        std::int64_t stride = 1;
        Padding before{}, behind{};
    };
    void convolve(const Convolution& c, void* x, void* weight, void* y);
    void convolve_input_gradient(const Convolution& c, void* dy, void* weight, void* dx);
    void convolve_weight_gradient(const Convolution& c, void* x, void* dy, void* dweight);
    /// y = f(x), or f(x, b).
    void pointwise(cudnnPointwiseMode_t mode, void* x, void* b, void* y);
    void sum(void* x, void* y);
    /// Sums of y and of y * y by channel, in fp32, of a convolution's result.
    void statistics(void* y, void* sum, void* squares);
    void max_pool(const Window& window, void* x, void* y, void* index);
    void max_pool_gradient(const Window& window, void* dy, void* index, void* dx);

    /// Of the operations, finalized; with a handle where there is one.
    [[nodiscard]] DnnDescriptor finish(cudnnHandle_t handle) const;
    [[nodiscard]] std::size_t tensors_in_memory() const { return tensors_; }
    /// All that was set, as bytes: equal graphs have equal ones, in every process.
    [[nodiscard]] const std::string& signature() const { return signature_; }

private:
    // As the functions of these names, and in the signature.
    template <class T>
    void set(const DnnDescriptor& d, cudnnBackendAttributeName_t name,
             cudnnBackendAttributeType_t type, const std::vector<T>& elements) {
        sign(name, elements.data(), elements.size() * sizeof(T));
        detail::set(d, name, type, elements);
    }
    template <class T>
    void set(const DnnDescriptor& d, cudnnBackendAttributeName_t name,
             cudnnBackendAttributeType_t type, const T& element) {
        sign(name, &element, sizeof element);
        detail::set(d, name, type, element);
    }
    void set_part(const DnnDescriptor& d, cudnnBackendAttributeName_t name, const void* part);
    void set_integers(const DnnDescriptor& d, cudnnBackendAttributeName_t name,
                      const std::vector<std::int64_t>& v);
    void set_fractions(const DnnDescriptor& d, cudnnBackendAttributeName_t name,
                       const std::vector<std::int64_t>& v);
    void keep_nan(const DnnDescriptor& d, bool is_pointwise);
    void sign(cudnnBackendAttributeName_t name, const void* bytes, std::size_t count);

    void* keep(DnnDescriptor d, const std::string& what);
    void* make_tensor(const DnnShape& shape, cudnnDataType_t type, std::int64_t uid,
                      bool is_virtual);
    void* make_convolution(const Convolution& c);
    void* make_window(const Window& window);
    void* make_pointwise(cudnnPointwiseMode_t mode);
    void add(DnnDescriptor operation, const std::string& what);

    std::vector<DnnDescriptor> kept_{};
    std::vector<cudnnBackendDescriptor_t> operations_{};
    std::size_t tensors_ = 0;
    std::string signature_{};
};

}  // namespace gx::cuda::detail
