//! The messages of an ONNX file, as far as networks need them.
//!
//! Names and raw data stay where they are in the file. Field numbers are those of onnx.proto.

use super::protobuf::{Fields, Malformed};
use crate::memory::ledger::Ledger;
use crate::memory::list::List;

type Result<T> = std::result::Result<T, Malformed>;

/// `ModelProto`.
#[derive(Debug, Default)]
pub(super) struct ModelFile<'a> {
    /// Version of the default operator set; `None` if the file imports none.
    pub(super) opset: Option<i64>,
    /// Functions that nodes may call as they call operators.
    pub(super) functions: List<FunctionFile<'a>>,
    pub(super) graph: Option<GraphFile<'a>>,
    /// The file imports operators of other domains.
    pub(super) has_other_domains: bool,
    /// Keys, and values that should be text.
    pub(super) metadata: List<(&'a str, &'a [u8])>,
}

/// `GraphProto`.
#[derive(Debug, Default)]
pub(super) struct GraphFile<'a> {
    pub(super) nodes: List<NodeFile<'a>>,
    pub(super) initializers: List<TensorFile<'a>>,
    pub(super) inputs: List<ValueFile<'a>>,
    pub(super) outputs: List<ValueFile<'a>>,
    /// Some initializers are sparse; they are not read.
    pub(super) has_sparse: bool,
}

/// `FunctionProto`: an operator that is made of others.
#[derive(Debug, Default)]
pub(super) struct FunctionFile<'a> {
    pub(super) name: &'a str,
    pub(super) domain: &'a str,
    /// Tells functions of one name apart.
    pub(super) overload: &'a str,
    /// Version of the default operator set in its body; `None` is that of the file.
    pub(super) opset: Option<i64>,
    pub(super) inputs: List<&'a str>,
    pub(super) outputs: List<&'a str>,
    pub(super) nodes: List<NodeFile<'a>>,
    /// Attributes with what they are if a node doesn't say.
    pub(super) defaults: List<AttributeFile<'a>>,
}

/// `NodeProto`.
#[derive(Debug, Default)]
pub(super) struct NodeFile<'a> {
    pub(super) name: &'a str,
    pub(super) op: &'a str,
    pub(super) domain: &'a str,
    /// The function of several with its name.
    pub(super) overload: &'a str,
    /// An empty name is an input that is left out.
    pub(super) inputs: List<&'a str>,
    pub(super) outputs: List<&'a str>,
    pub(super) attributes: List<AttributeFile<'a>>,
}

/// `AttributeProto`: whichever of these is set.
#[derive(Debug, Default)]
pub(super) struct AttributeFile<'a> {
    pub(super) name: &'a str,
    pub(super) float: Option<f32>,
    pub(super) int: Option<i64>,
    pub(super) text: Option<&'a [u8]>,
    pub(super) tensor: Option<TensorFile<'a>>,
    pub(super) floats: List<f32>,
    pub(super) ints: List<i64>,
    pub(super) texts: List<&'a [u8]>,
    /// A branch of an `If`.
    pub(super) graph: Option<Box<GraphFile<'a>>>,
    /// The attribute of a function that this one is.
    pub(super) refers_to: Option<&'a str>,
}

/// `TensorProto`. Values stand in whichever of the lists is not empty.
#[derive(Debug, Default)]
pub(super) struct TensorFile<'a> {
    pub(super) name: &'a str,
    pub(super) dims: List<i64>,
    /// `TensorProto.DataType`.
    pub(super) element: i64,
    pub(super) floats: List<f32>,
    pub(super) ints: List<i64>,
    pub(super) doubles: List<f64>,
    pub(super) texts: List<&'a [u8]>,
    pub(super) raw: Option<&'a [u8]>,
    /// Keys and values that say in which file the data is.
    pub(super) external: List<(&'a str, &'a str)>,
}

/// `ValueInfoProto`: a tensor or a sequence of tensors that goes in or out. One that is optional is
/// as if it had to be there.
#[derive(Debug, Default)]
pub(super) struct ValueFile<'a> {
    pub(super) name: &'a str,
    /// `TensorProto.DataType`; 0 if it is not a tensor.
    pub(super) element: i64,
    /// `None` if the file says nothing about the shape.
    pub(super) dims: Option<List<Dimension<'a>>>,
    /// Its tensors, if it is a sequence of tensors.
    pub(super) items: Option<ItemFile<'a>>,
    pub(super) is_optional: bool,
}

/// `TypeProto.Tensor` of the tensors of a sequence.
#[derive(Debug)]
pub(super) struct ItemFile<'a> {
    pub(super) element: i64,
    pub(super) dims: Option<List<Dimension<'a>>>,
}

/// One size of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dimension<'a> {
    Fixed(i64),
    /// Left open, under this name.
    Open(&'a str),
}

/// Reads a message field by field.
macro_rules! message {
    ($bytes:expr, $($number:literal => |$value:ident| $read:expr),+ $(,)?) => {{
        let mut fields = Fields::of($bytes);
        while let Some((number, value)) = fields.next()? {
            match number {
                $($number => { let $value = value; $read; })+
                _ => {}
            }
        }
    }};
}

impl<'a> ModelFile<'a> {
    pub(super) fn read(bytes: &'a [u8], ledger: &Ledger) -> Result<Self> {
        let mut model = Self::default();
        message!(bytes,
            7 => |v| model.graph = Some(GraphFile::read(v.bytes()?, ledger, 0)?),
            8 => |v| match opset(v.bytes()?)? {
                ("" | "ai.onnx", version) => model.opset = Some(version),
                _ => model.has_other_domains = true,
            },
            14 => |v| model.metadata.push(entry(v.bytes()?)?, ledger)?,
            25 => |v| model.functions.push(FunctionFile::read(v.bytes()?, ledger)?, ledger)?,
        );
        Ok(model)
    }
}

/// `StringStringEntryProto` whose value may be long.
fn entry(bytes: &[u8]) -> Result<(&str, &[u8])> {
    let mut entry = ("", &[][..]);
    message!(bytes, 1 => |v| entry.0 = v.text()?, 2 => |v| entry.1 = v.bytes()?);
    Ok(entry)
}

/// Domain and version of an imported operator set.
fn opset(bytes: &[u8]) -> Result<(&str, i64)> {
    let mut set = ("", 0);
    message!(bytes, 1 => |v| set.0 = v.text()?, 2 => |v| set.1 = v.int()?);
    Ok(set)
}

/// Maximum depth of graphs within graphs.
const DEPTH: usize = 16;

impl<'a> GraphFile<'a> {
    /// Reads a graph that lies `depth` deep in others.
    fn read(bytes: &'a [u8], ledger: &Ledger, depth: usize) -> Result<Self> {
        if depth > DEPTH {
            return Err(Malformed(format!("graphs lie more than {DEPTH} deep in each other")));
        }
        let mut graph = Self::default();
        message!(bytes,
            1 => |v| graph.nodes.push(NodeFile::read(v.bytes()?, ledger, depth)?, ledger)?,
            5 => |v| graph.initializers.push(TensorFile::read(v.bytes()?, ledger)?, ledger)?,
            11 => |v| graph.inputs.push(ValueFile::read(v.bytes()?, ledger)?, ledger)?,
            12 => |v| graph.outputs.push(ValueFile::read(v.bytes()?, ledger)?, ledger)?,
            15 => |v| graph.has_sparse |= !v.bytes()?.is_empty(),
        );
        Ok(graph)
    }
}

impl<'a> FunctionFile<'a> {
    fn read(bytes: &'a [u8], ledger: &Ledger) -> Result<Self> {
        let mut function = Self::default();
        message!(bytes,
            1 => |v| function.name = v.text()?,
            4 => |v| function.inputs.push(v.text()?, ledger)?,
            5 => |v| function.outputs.push(v.text()?, ledger)?,
            7 => |v| function.nodes.push(NodeFile::read(v.bytes()?, ledger, 0)?, ledger)?,
            9 => |v| if let ("" | "ai.onnx", version) = opset(v.bytes()?)? {
                function.opset = Some(version);
            },
            10 => |v| function.domain = v.text()?,
            11 => |v| {
                let default = AttributeFile::read(v.bytes()?, ledger, 0)?;
                function.defaults.push(default, ledger)?;
            },
            13 => |v| function.overload = v.text()?,
        );
        Ok(function)
    }
}

impl<'a> NodeFile<'a> {
    fn read(bytes: &'a [u8], ledger: &Ledger, depth: usize) -> Result<Self> {
        let mut node = Self::default();
        message!(bytes,
            1 => |v| node.inputs.push(v.text()?, ledger)?,
            2 => |v| node.outputs.push(v.text()?, ledger)?,
            3 => |v| node.name = v.text()?,
            4 => |v| node.op = v.text()?,
            5 => |v| {
                let attribute = AttributeFile::read(v.bytes()?, ledger, depth)?;
                node.attributes.push(attribute, ledger)?;
            },
            7 => |v| node.domain = v.text()?,
            8 => |v| node.overload = v.text()?,
        );
        Ok(node)
    }
}

impl<'a> AttributeFile<'a> {
    /// Returns whether it has one value, or values that are not numbers.
    pub(super) fn is_no_list(&self) -> bool {
        let has_one = self.int.is_some() || self.float.is_some() || self.text.is_some();
        has_one || self.tensor.is_some() || self.graph.is_some() || !self.texts.is_empty()
    }

    fn read(bytes: &'a [u8], ledger: &Ledger, depth: usize) -> Result<Self> {
        let mut attribute = Self::default();
        message!(bytes,
            1 => |v| attribute.name = v.text()?,
            2 => |v| attribute.float = Some(v.float()?),
            3 => |v| attribute.int = Some(v.int()?),
            4 => |v| attribute.text = Some(v.bytes()?),
            5 => |v| attribute.tensor = Some(TensorFile::read(v.bytes()?, ledger)?),
            6 => |v| {
                let graph = GraphFile::read(v.bytes()?, ledger, depth + 1)?;
                attribute.graph = Some(Box::new(graph));
            },
            7 => |v| v.append_floats(&mut attribute.floats, ledger)?,
            8 => |v| v.append_ints(&mut attribute.ints, ledger)?,
            9 => |v| attribute.texts.push(v.bytes()?, ledger)?,
            21 => |v| attribute.refers_to = Some(v.text()?),
        );
        Ok(attribute)
    }
}

impl<'a> TensorFile<'a> {
    pub(super) fn read(bytes: &'a [u8], ledger: &Ledger) -> Result<Self> {
        let mut tensor = Self::default();
        message!(bytes,
            1 => |v| v.append_ints(&mut tensor.dims, ledger)?,
            2 => |v| tensor.element = v.int()?,
            4 => |v| v.append_floats(&mut tensor.floats, ledger)?,
            5 => |v| v.append_ints(&mut tensor.ints, ledger)?,
            6 => |v| tensor.texts.push(v.bytes()?, ledger)?,
            7 => |v| v.append_ints(&mut tensor.ints, ledger)?,
            8 => |v| tensor.name = v.text()?,
            9 => |v| tensor.raw = Some(v.bytes()?),
            10 => |v| v.append_doubles(&mut tensor.doubles, ledger)?,
            11 => |v| v.append_ints(&mut tensor.ints, ledger)?,
            13 => |v| tensor.external.push(pair(v.bytes()?)?, ledger)?,
        );
        Ok(tensor)
    }
}

/// `StringStringEntryProto`.
fn pair(bytes: &[u8]) -> Result<(&str, &str)> {
    let mut pair = ("", "");
    message!(bytes, 1 => |v| pair.0 = v.text()?, 2 => |v| pair.1 = v.text()?);
    Ok(pair)
}

impl<'a> ValueFile<'a> {
    fn read(bytes: &'a [u8], ledger: &Ledger) -> Result<Self> {
        let mut value = Self::default();
        message!(bytes,
            1 => |v| value.name = v.text()?,
            2 => |v| value.read_type(v.bytes()?, ledger)?,
        );
        Ok(value)
    }

    /// Reads a `TypeProto`, which may be that of an optional value.
    fn read_type(&mut self, bytes: &'a [u8], ledger: &Ledger) -> Result<()> {
        let mut within = None;
        message!(bytes, 9 => |v| within = Some(inner(v.bytes()?)?));
        self.is_optional = within.is_some();
        let bytes = within.unwrap_or(bytes);
        let mut sequence: &[u8] = &[];
        message!(bytes, 4 => |v| sequence = inner(v.bytes()?)?);
        (self.element, self.dims) = tensor_type(bytes, ledger)?;
        let (element, dims) = tensor_type(sequence, ledger)?;
        if element != 0 {
            self.items = Some(ItemFile { element, dims }); // not maps, which ZipMap declares
        }
        Ok(())
    }
}

/// The `TypeProto` in the type of a sequence or of an optional value.
fn inner(bytes: &[u8]) -> Result<&[u8]> {
    let mut inner: &[u8] = &[];
    message!(bytes, 1 => |v| inner = v.bytes()?);
    Ok(inner)
}

/// Bytes of the tensors of a `SequenceProto`.
pub(super) fn tensors_of_sequence<'a>(bytes: &'a [u8], ledger: &Ledger) -> Result<List<&'a [u8]>> {
    let mut tensors = List::default();
    message!(bytes, 3 => |v| tensors.push(v.bytes()?, ledger)?);
    Ok(tensors)
}

/// Bytes of the tensor or the sequence of an `OptionalProto`; `None` if it has neither.
pub(super) fn value_of_optional(bytes: &[u8]) -> Result<Option<&[u8]>> {
    let mut found = None;
    message!(bytes, 3 => |v| found = Some(v.bytes()?), 5 => |v| found = Some(v.bytes()?));
    Ok(found)
}

/// Element type and shape of a `TypeProto`.
fn tensor_type<'a>(bytes: &'a [u8], ledger: &Ledger) -> Result<(i64, Option<List<Dimension<'a>>>)> {
    let mut read = (0, None);
    let mut tensor: &[u8] = &[];
    message!(bytes, 1 => |v| tensor = v.bytes()?);
    message!(tensor,
        1 => |v| read.0 = v.int()?,
        2 => |v| read.1 = Some(dimensions(v.bytes()?, ledger)?),
    );
    Ok(read)
}

fn dimensions<'a>(bytes: &'a [u8], ledger: &Ledger) -> Result<List<Dimension<'a>>> {
    let mut dims = List::default();
    message!(bytes, 1 => |v| dims.push(dimension(v.bytes()?)?, ledger)?);
    Ok(dims)
}

/// Some exporters (Paddle's) write −1 or a question mark for what others leave out.
fn dimension<'a>(bytes: &'a [u8]) -> Result<Dimension<'a>> {
    let mut size = Dimension::Open("");
    message!(bytes,
        1 => |v| size = match v.int()? {
            -1 => Dimension::Open(""),
            fixed => Dimension::Fixed(fixed),
        },
        2 => |v| size = Dimension::Open(v.text().map(|name| if name == "?" { "" } else { name })?),
    );
    Ok(size)
}
