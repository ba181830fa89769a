// FieldReader, FieldWriter: one description of a struct reads it from JSON and writes it.
#pragma once

#include <string>       // paths
#include <string_view>  // names
#include <utility>      // move
#include <vector>       // known names

#include <gx/core/decl.hpp>      // GX_DECL
#include <gx/core/error.hpp>     // Error
#include <gx/io/json_text.hpp>   // JsonWriter
#include <gx/io/json_value.hpp>  // JsonValue
#include <gx/core/label.hpp>     // Label
#include <gx/core/units.hpp>     // Quantity

namespace gx::sim {

/// Unit and range of the numbers whose field has a name that ends in `ending`.
struct FieldUnit {
    std::string_view ending, symbol;
    double factor;       ///< of one, in what is stored
    double least, most;  ///< in the unit of the file
    bool zero;           ///< 0 is allowed below `least`: none, or unknown
};
/// Returns the unit of a field. Errors: a name that ends in none breaks the contract.
[[nodiscard]] GX_DECL const FieldUnit& unit_of(std::string_view field);

/// Reader of the fields of one JSON object; a field that is absent keeps its value.
/// Errors: gx::Error with file, line, field, value and the range, for a value of another kind or
///         out of range; with the nearest name for an unknown field; for a field given twice.
class FieldReader {
public:
    FieldReader(const JsonValue& object, std::string file, std::string path);

    void field(std::string_view name, Label& x);
    void field(std::string_view name, bool& x);
    void field(std::string_view name, int& x, int least, int most);
    /// A number in the unit and range of the field's name, as unit_of() has them.
    void field(std::string_view name, double& x);
    void field(std::string_view name, Bytes& x);
    void field(std::string_view name, Nanoseconds& x);
    template <class Unit>
    void field(std::string_view name, Quantity<Unit, double>& x) {
        field(name, x.count);
    }

    /// Calls f(item, "path[i]", i) for each item of an array; returns their number, or -1.
    template <class F>
    int each(std::string_view name, int most, F&& f) {
        const JsonValue* list = array(name, most);
        if (list == nullptr) return -1;
        int i = 0;
        for (const JsonValue& item : list->items) {
            f(item, full(name) + "[" + std::to_string(i) + "]", i);
            ++i;
        }
        return i;
    }
    [[nodiscard]] const JsonValue* find(std::string_view name);
    [[nodiscard]] const JsonValue& at(std::string_view name);
    /// Returns the whole number that `item`, the field or part of it, holds.
    [[nodiscard]] int whole(const JsonValue& item, std::string_view name, int least,
                            int most) const;
    /// Throws for the first field that was not asked for; call it after all others.
    void finish() const;

    /// Returns "file: line n: field 'path'", without the line where there is no such field.
    [[nodiscard]] std::string where(std::string_view name) const;
    /// Throws where(name) and `why`.
    [[noreturn]] void wrong(std::string_view name, const std::string& why) const;
    [[nodiscard]] std::string full(std::string_view name) const;
    [[nodiscard]] const std::string& file() const { return file_; }

private:
    [[nodiscard]] const JsonValue* array(std::string_view name, int most);

    const JsonValue& object_;
    std::string file_, path_;
    std::vector<std::string_view> known_{};
};

/// Writer of the same fields, indented by 2. Numbers in their unit, rounded to 9 places.
class FieldWriter {
public:
    void field(std::string_view name, const Label& x) { out_.field(name, x.view()); }
    void field(std::string_view name, bool x) { out_.field(name, x); }
    void field(std::string_view name, int x, int, int) { out_.field(name, x); }
    void field(std::string_view name, double x);
    void field(std::string_view name, Bytes x) { field(name, static_cast<double>(x.count)); }
    void field(std::string_view name, Nanoseconds x);
    template <class Unit>
    void field(std::string_view name, const Quantity<Unit, double>& x) {
        field(name, x.count);
    }
    /// For the brackets, and for values that are no plain fields.
    [[nodiscard]] JsonWriter& json() { return out_; }

private:
    JsonWriter out_{2};
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/io/impl/json_fields.ipp>
#endif
