// handles: owners of oneDNN's objects in its C interface, and errors of calls.
// The C++ interface of oneDNN takes a second to compile.
#pragma once

#include <oneapi/dnnl/dnnl.h>  // engines, streams, primitives

#include <string>   // errors
#include <utility>  // swap

#include <gx/core/cold.hpp>   // GX_COLD
#include <gx/core/error.hpp>  // Error

namespace gx::onednn::detail {

/// A call of oneDNN that failed.
class LibraryError : public Error {
public:
    using Error::Error;
};

/// Errors: LibraryError if `status` is not success, as in "could not create a stream".
inline void expect(dnnl_status_t status, const char* what) {
    if (status != dnnl_success) throw LibraryError(std::string("could not ") + what);
}

/// Owner of one of oneDNN's objects, or of none.
template <class Object, dnnl_status_t (*destroy)(Object)>
class Owned {
public:
    Owned() = default;
    explicit Owned(Object object) : object_(object) {}
    Owned(Owned&& o) noexcept { std::swap(object_, o.object_); }
    Owned& operator=(Owned&& o) noexcept {
        std::swap(object_, o.object_);
        return *this;
    }
    ~Owned() {
        if (object_ != nullptr) destroy(object_);
    }
    [[nodiscard]] Object get() const { return object_; }

private:
    Object object_ = nullptr;
};
using Engine = Owned<dnnl_engine_t, dnnl_engine_destroy>;
using Stream = Owned<dnnl_stream_t, dnnl_stream_destroy>;
using Attributes = Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using Plan = Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using Primitive = Owned<dnnl_primitive_t, dnnl_primitive_destroy>;

[[nodiscard]] inline dnnl_engine_t engine() {
    static const Engine one([] {
        dnnl_engine_t made = nullptr;
        expect(dnnl_engine_create(&made, dnnl_cpu, 0), "create an engine");
        return made;
    }());
    return one.get();
}
[[nodiscard]] inline Stream new_stream() {
    dnnl_stream_t made = nullptr;
    expect(dnnl_stream_create(&made, engine(), dnnl_stream_default_flags), "create a stream");
    return Stream(made);
}

/// Attributes with a scratchpad of ours, so that executing a primitive allocates nothing.
GX_COLD [[nodiscard]] inline dnnl_primitive_attr_t user_scratch() {
    static const Attributes one([] {
        dnnl_primitive_attr_t made = nullptr;
        expect(dnnl_primitive_attr_create(&made), "create primitive attributes");
        expect(dnnl_primitive_attr_set_scratchpad_mode(made, dnnl_scratchpad_mode_user),
               "set the scratchpad mode");
        return made;
    }());
    return one.get();
}

}  // namespace gx::onednn::detail
