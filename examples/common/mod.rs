//! The option `--device NAME` of all examples.

/// Returns the device's name and the other arguments. Without `--device` the name is `auto`: a GPU
/// if there is one, else the CPU.
///
/// # Errors
///
/// `--device` is the last argument, or there is another option.
pub(crate) fn arguments() -> Result<(String, Vec<String>), String> {
    let (mut device, mut rest) = (reef::AUTO.to_owned(), Vec::new());
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        match argument.strip_prefix("--device") {
            Some("") => {
                device = given.next().ok_or("--device: must have a name, such as cuda:0")?
            }
            Some(name) if name.starts_with('=') => name[1..].clone_into(&mut device),
            _ if argument.starts_with('-') => {
                return Err(format!("{argument}: the only option is --device NAME"));
            }
            _ => rest.push(argument),
        }
    }
    Ok((device, rest))
}
